// SPDX-License-Identifier: Apache-2.0
#include "snug/session.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <set>

#include "base/id_vector.h"
#include "base/stop.h"
#include "session/finite.h"
#include "session/machine.h"
#include "session/session_impl.h"
#include "session/session_plan.h"
#include "snug/error.h"

namespace snug {
namespace {

constexpr float kLargestCode = 255;  // of a state in 8 bits

// What is fed for the outputs alone: everything that one of them depends on.
std::vector<std::string> inputs_of_outputs(const Graph& graph) {
  IdVector<bool> is_needed(graph.values.size(), false);
  for (const ValueId id : graph.outputs) {
    if (graph.value(id).name != train::kLossName) is_needed[id] = true;
  }
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    const bool is_read = std::any_of(node.outputs.begin(), node.outputs.end(),
                                     [&](ValueId id) { return is_needed[id]; });
    if (!is_read) continue;
    for (const ValueId id : node.inputs) {
      if (id != kNone) is_needed[id] = true;
    }
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (is_needed[i] && graph.values[i].kind == ValueKind::input)
      names.push_back(graph.values[i].name);
  }
  return names;
}

std::vector<std::string> inputs_of(const Graph& graph, const NetworkFacts& facts) {
  std::vector<std::string> names;
  for (const FedInput& input : facts.inputs) {
    if (graph.find(input.name) != kNone) names.push_back(input.name);
  }
  return names;
}

// Rows that only fill up a micro-batch would count where rows are coupled.
void check_filled(const std::string& coupling, int64_t rows, int64_t micro_batch) {
  if (coupling.empty() || rows % micro_batch == 0) return;
  throw Error(ErrorCode::bad_data, "rows",
              "the network " + coupling + ", and " + std::to_string(rows) +
                  " rows do not fill micro-batches of " + std::to_string(micro_batch),
              "give a multiple of " + std::to_string(micro_batch) +
                  " rows; of an epoch leave out the last, smaller batch");
}

void check_cancelled(const SessionOptions& options) {
  if (options.cancel != nullptr && options.cancel->load())
    throw Error(ErrorCode::cancelled, "step", "stopped on request");
}

}  // namespace

Session::Impl::Impl(const Network& network, const SessionOptions& given, int64_t micro_batch)
    : options(given), name(network.name()) {
  check_options(options);
  machine = train::open_machine("cpu", options.threads, options.profile_folder);
  DescribedNetwork described = describe_network(network, options.lengths);
  def = std::move(described.def);
  facts = std::move(described.facts);
  rule = update_rule(options, def);
  const std::vector<std::string> names =
      train::trainable_names(train::parameter_names(def), options.freeze);
  trained.insert(names.begin(), names.end());
  plan = plan_session(def, name, options, micro_batch, *machine.backend);
  engine = std::make_unique<train::Engine>(plan, *machine.backend, options.block);
  engine->rehearse_peak();
  for (const auto& [weight, entry] : plan.residents.entries()) {
    if (!is_of_model(entry.kind)) continue;
    nn::initialize(engine->write<float>(weight), entry.type.shape,
                   def.init_rule(weight, entry.type.shape), weight,
                   static_cast<uint64_t>(options.seed), machine.threads);
  }
}

Evaluation Session::Impl::run_eval(const RowSource& rows, const OutputSink& sink,
                                   const std::vector<std::string>& inputs) {
  check_cancelled(options);
  check_filled(facts.eval_coupling, rows.rows(), plan.micro_batch);
  const Feeder feeder(*engine, facts, rows, static_cast<uint64_t>(options.seed), inputs);
  const size_t bucket = engine->bucket_of(rows.length());
  Executable& program = engine->eval(bucket);
  const Graph& graph = plan.eval[bucket].graph;
  std::map<std::string, std::span<const float>> values;
  std::map<std::string, Shape> shapes;
  for (const std::string& output : facts.outputs) {
    const Shape& shape = graph.type(graph.find(output)).shape;
    shapes[output] = Shape(shape.begin() + 1, shape.end());
  }
  Evaluation evaluation{.rows = rows.rows()};
  engine->run_prologue();
  for (int64_t first = 0; first < rows.rows(); first += plan.micro_batch) {
    check_cancelled(options);
    feeder.fill(*engine, first, 0);
    engine->run(program);
    const int64_t count = std::min(plan.micro_batch, rows.rows() - first);
    if (graph.find(train::kLossName) != kNone)
      evaluation.loss +=
          static_cast<double>(*reinterpret_cast<const float*>(program.data(train::kLossName)));
    if (!sink) continue;
    for (const auto& [output, shape] : shapes)
      values[output] = {reinterpret_cast<const float*>(program.data(output)),
                        static_cast<size_t>(count * element_count(shape))};
    sink({.first_row = first, .rows = count, .values = values, .row_shapes = shapes});
  }
  return evaluation;
}

PlanReport plan_network(const Network& network, const SessionOptions& options) {
  check_options(options);
  const train::Machine machine =
      train::open_machine("cpu", options.threads, options.profile_folder);
  const DescribedNetwork described = describe_network(network, options.lengths);
  return plan_session(described.def, network.name(), options, options.micro_batch_size,
                      *machine.backend)
      .report;
}

Session::Session(const Network& network, const SessionOptions& options)
    : impl_(std::make_unique<Impl>(network, options, options.micro_batch_size)) {}
Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

const PlanReport& Session::plan() const { return impl_->plan.report; }
int64_t Session::updates() const { return impl_->counts.drawn; }

Feeder Session::Impl::fed(const RowSource& batch) const {
  if (batch.rows() > options.batch_rows)
    throw Error(ErrorCode::bad_data, "rows",
                std::to_string(batch.rows()) + " rows are more than the batch of " +
                    std::to_string(options.batch_rows) + " that the session was planned for",
                "give at most batch_rows rows");
  check_filled(facts.coupling, batch.rows(), plan.micro_batch);
  return {*engine, facts, batch, static_cast<uint64_t>(options.seed),
          inputs_of(plan.train.back().graph, facts)};
}

void Session::Impl::drop_gradients() {
  for (const auto& [tensor, entry] : plan.residents.entries()) {
    if (tensor.starts_with(train::kGradientPrefix))
      std::ranges::fill(engine->write<std::byte>(tensor), std::byte{0});
  }
}

train::UpdateResult Session::Impl::update(const Feeder& batch) {
  try {
    return train::run_update(*engine, batch, counts, rule);
  } catch (...) {
    drop_gradients();
    throw;
  }
}

GradientResult Session::gradients(const RowSource& batch) {
  Impl& it = *impl_;
  check_cancelled(it.options);
  if (!it.options.only_gradients)
    throw Error(ErrorCode::bad_config, "only_gradients",
                "the session updates its weights and keeps no gradients",
                "plan it with only_gradients = true");
  GradientResult result;
  const Feeder feeder = it.fed(batch);
  try {
    result.loss = train::run_pieces(*it.engine, feeder, it.counts.drawn);
  } catch (...) {
    it.drop_gradients();
    throw;
  }
  for (const std::string& weight : it.trained) {
    const std::string name = train::kGradientPrefix + weight;
    std::vector<float>& gradient = result.of[weight];
    if (!it.engine->has(name)) {  // the loss does not depend on it
      gradient.assign(static_cast<size_t>(element_count(it.entry(weight).type)), 0.0F);
      continue;
    }
    const std::span<float> sum = it.engine->write<float>(name);
    gradient.assign(sum.begin(), sum.end());
    std::fill(sum.begin(), sum.end(), 0.0F);  // as before every update
  }
  return result;
}

StepResult Session::step(const RowSource& batch) {
  Impl& it = *impl_;
  check_cancelled(it.options);
  if (it.options.only_gradients)
    throw Error(ErrorCode::bad_config, "only_gradients", "the session has no optimizer to step",
                "call gradients, or leave only_gradients away");
  const Feeder feeder = it.fed(batch);
  const train::UpdateResult result = it.update(feeder);
  const double rate =
      it.options.learning_rate * optim::rate_factor(it.rule.schedule, it.counts.schedule);
  ++it.counts.drawn;
  ++it.counts.schedule;
  ++it.counts.optimizer;
  if (!std::isfinite(result.loss) || !std::isfinite(result.grad_norm))
    throw Error(ErrorCode::numeric, "update " + std::to_string(it.counts.drawn),
                "loss " + std::to_string(result.loss) + ", norm of the gradients " +
                    std::to_string(result.grad_norm) + ": the weights are lost",
                "go back to what you saved, with a lower learning_rate or max_grad_norm");
  return {.update = it.counts.drawn,
          .loss = result.loss,
          .grad_norm = result.grad_norm,
          .learning_rate = rate};
}

Evaluation Session::evaluate(const RowSource& rows, const OutputSink& sink) {
  return impl_->run_eval(rows, sink, inputs_of(impl_->plan.eval.front().graph, impl_->facts));
}

void Session::predict(const RowSource& rows, const OutputSink& sink) {
  std::vector<std::string> inputs = inputs_of_outputs(impl_->plan.eval.front().graph);
  std::erase_if(inputs, [&](const std::string& input) {
    return std::none_of(impl_->facts.inputs.begin(), impl_->facts.inputs.end(),
                        [&](const FedInput& one) { return one.name == input; });
  });
  (void)impl_->run_eval(rows, sink, inputs);
}

const ResidentLayout::Entry& Session::Impl::entry(const std::string& tensor) const {
  const bool is_there = engine->has(tensor) && !tensor.starts_with(train::kGradientPrefix);
  if (!is_there || !is_kept(plan.residents.at(tensor).kind))
    throw Error(ErrorCode::bad_config, tensor, "the session has no tensor of this name",
                "tensors() lists them");
  return plan.residents.at(tensor);
}

std::vector<TensorInfo> Session::tensors() const {
  std::vector<TensorInfo> found;
  for (const auto& [name, entry] : impl_->plan.residents.entries()) {
    if (!is_kept(entry.kind) || name.starts_with(train::kGradientPrefix)) continue;
    const TensorKind kind = entry.kind == ValueKind::parameter ? TensorKind::parameter
                            : entry.kind == ValueKind::buffer  ? TensorKind::buffer
                                                               : TensorKind::optimizer_state;
    found.push_back({.name = name,
                     .shape = entry.type.shape,
                     .kind = kind,
                     .is_trained = impl_->trained.count(name) != 0});
  }
  return found;
}

void Session::read(const std::string& name, std::span<float> values) const {
  const int64_t elements = element_count(impl_->entry(name).type);
  if (std::ssize(values) != elements)
    throw Error(ErrorCode::bad_config, name,
                "room for " + std::to_string(values.size()) + " elements, the tensor has " +
                    std::to_string(elements));
  const auto copy = [&values](const auto& own) {
    std::copy(own.begin(), own.end(), values.begin());
  };
  if (impl_->entry(name).type.dtype == DType::u8) return copy(impl_->engine->read<uint8_t>(name));
  copy(impl_->engine->read<float>(name));
}

std::vector<float> Session::read(const std::string& name) const {
  std::vector<float> values(static_cast<size_t>(element_count(impl_->entry(name).type)));
  read(name, values);
  return values;
}

void Session::write(const std::string& name, std::span<const float> values) {
  const int64_t elements = element_count(impl_->entry(name).type);
  if (std::ssize(values) != elements)
    throw Error(
        ErrorCode::bad_config, name,
        std::to_string(values.size()) + " elements, the tensor has " + std::to_string(elements));
  const int64_t bad = train::first_not_finite(values);
  if (bad >= 0)
    throw Error(ErrorCode::numeric, name, "element " + std::to_string(bad) + " is not finite");
  if (impl_->entry(name).type.dtype != DType::u8) {
    std::copy(values.begin(), values.end(), impl_->engine->write<float>(name).begin());
    return;
  }
  const auto wrong = std::find_if(values.begin(), values.end(), [](float value) {
    return value < 0 || value > kLargestCode || value != std::floor(value);
  });
  if (wrong != values.end())
    throw Error(ErrorCode::bad_config, name,
                "element " + std::to_string(wrong - values.begin()) + " is no code of 8 bits",
                "give whole numbers from 0 to 255");
  std::transform(values.begin(), values.end(), impl_->engine->write<uint8_t>(name).begin(),
                 [](float value) { return static_cast<uint8_t>(value); });
}

int64_t Session::measured_arena_bytes() {
  impl_->engine->check_memory();
  return impl_->engine->measured_arena_bytes() - impl_->plan.gradient_bytes;
}

}  // namespace snug
