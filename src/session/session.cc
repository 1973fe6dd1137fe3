// SPDX-License-Identifier: Apache-2.0
#include "snug/session.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "base/float_mode.h"
#include "base/numbers.h"
#include "base/threads.h"
#include "compile/value_names.h"
#include "session/coded_weight.h"
#include "session/finite.h"
#include "session/session_impl.h"
#include "snug/error.h"
#include "spec/table.h"

namespace snug {
namespace {

constexpr int64_t kBufferElements = 1 << 16;

int64_t rows_at_once(int64_t columns) { return std::max<int64_t>(1, kBufferElements / columns); }

constexpr int64_t kMostUpdates = int64_t{1} << 53;  // and are exact as f64
constexpr float kLargestCode = 255;                 // of a state in 8 bits
constexpr double kLargestScale = std::numeric_limits<float>::max();

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

std::unique_ptr<train::Engine> make_engine(const SessionPlan::Impl& planned) {
  // Planning used heap that the budget has no place for beside the block.
  if (planned.options.process_bytes > 0) malloc_trim(0);
  return std::make_unique<train::Engine>(planned.plan, *planned.machine.impl().backend,
                                         planned.options.block);
}

}  // namespace

Session::Impl::Use::Use(Impl& session) : session_(session) {
  check_threads(session.planned->machine.threads());
  if (session.is_used_.exchange(true))
    throw Error(ErrorCode::bad_config, "session",
                "it is called while it computes: from its own rows or results, or from two threads",
                "keep what a callback is given, and call when the session has returned");
}

// The weights of a session in the caller's block would be those of another.
BlockLease::BlockLease(const SessionPlan::Impl& plan)
    : is_leased_(plan.options.block.empty() ? nullptr : &plan.is_block_leased) {
  if (is_leased_ != nullptr && is_leased_->exchange(true))
    throw Error(ErrorCode::bad_config, "block",
                "another session of this plan lives in the caller's memory",
                "end that session first, or plan again with a block of its own");
}

std::unique_ptr<Session::Impl> Session::Impl::open(std::shared_ptr<const SessionPlan::Impl> plan) {
  const DefaultFloatMode float_mode;
  check_threads(plan->machine.threads());
  return std::make_unique<Impl>(std::move(plan));
}

Session::Impl::Impl(std::shared_ptr<const SessionPlan::Impl> plan)
    : planned(std::move(plan)),
      block(*planned),
      engine(make_engine(*planned)),
      feeder(*engine, planned->facts, planned->options.seed),
      kept_buffers(*engine),
      loss_scale(optim::initial_scale(planned->rule.loss_scale)) {
  const train::RunPlan& run = planned->plan;
  for (size_t i = 0; i < run.eval.size(); ++i) {
    const Graph& eval = run.eval[i].graph;
    Bucket bucket{.training = {},
                  .evaluation = inputs_of(eval, planned->facts),
                  .prediction = inputs_of_outputs(eval, planned->facts),
                  .outputs = {}};
    if (!run.train.empty()) bucket.training = inputs_of(run.train[i].graph, planned->facts);
    for (const std::string& output : planned->facts.outputs) {
      const Shape& shape = eval.type(eval.find(output)).shape;
      bucket.outputs[output] = Shape(shape.begin() + 1, shape.end());
    }
    buckets_.push_back(std::move(bucket));
  }
  engine->set_repeating(planned->options.repeats_own_ops);
  engine->rehearse_peak();
  if (!planned->options.has_initial_values) return;
  for (const auto& [name, entry] : run.residents.entries()) {
    if (is_of_model(entry.kind) && !train::is_scales(*engine, name)) initialize(name, entry);
  }
}

void Session::Impl::initialize(const std::string& weight, const ResidentLayout::Entry& entry) {
  const InitRule rule = planned->def.init_rule(weight, entry.type.shape);
  const auto seed = static_cast<uint64_t>(planned->options.seed);
  const int threads = planned->machine.threads();
  const TeamFloatMode float_mode(threads, Subnormals::kept);
  has_prologue = false;
  if (!train::is_coded_weight(*engine, weight)) {
    nn::initialize(engine->write<float>(weight), entry.type.shape, rule, weight, seed, threads);
    return;
  }
  // A few rows at a time: the weight is never in memory as f32.
  const int64_t columns = element_count(entry.type) / entry.type.shape[0];
  const int64_t rows = rows_at_once(columns);
  std::vector<float> values;
  for (int64_t first = 0; first < entry.type.shape[0]; first += rows) {
    values.resize(static_cast<size_t>(std::min(rows, entry.type.shape[0] - first) * columns));
    nn::initialize(values, entry.type.shape, rule, weight, seed, threads, first * columns);
    train::write_coded_rows(*engine, weight, first, values);
  }
}

size_t Session::Impl::bucket_of(const Lengths& length) const {
  const Lengths& longest = planned->plan.eval.back().length;
  if (longest.holds(length)) return engine->bucket_of(length);
  const auto names = longest.by_name();
  for (const auto& [name, size] : length.by_name()) {
    if (size == 0 || names.count(name) != 0) continue;
    throw Error(ErrorCode::bad_data, "rows",
                (name.empty() ? "rows have a length without a name"
                              : "rows have the length '" + name + "'") +
                    std::string(", the programs ") +
                    (longest.empty() ? "have none" : "have " + to_string(longest)),
                longest.empty() ? "give the rows no length, or add one to SessionOptions::lengths"
                                : "give the rows their lengths by the names of "
                                  "SessionOptions::lengths");
  }
  throw Error(
      ErrorCode::bad_data, "rows",
      "rows of length " + to_string(length) + ", the longest program takes " + to_string(longest),
      "shorten them, or add a length to SessionOptions::lengths");
}

Evaluation Session::Impl::run_eval(const RowSource& rows, const OutputSink& sink,
                                   bool has_outputs_alone) {
  const Use use(*this);
  check_cancelled(planned->options);
  const int64_t micro_batch = planned->plan.micro_batch;
  check_filled(planned->facts.eval_coupling, rows.rows(), micro_batch);
  const size_t index = bucket_of(rows.length());
  const Bucket& bucket = buckets_[index];
  feeder.begin(rows, has_outputs_alone ? bucket.prediction : bucket.evaluation);
  Executable& program = engine->eval(index);
  const bool has_loss = planned->plan.eval[index].graph.find(train::kLossName) != kNone;
  std::map<std::string, std::span<const float>> values;
  Evaluation evaluation{.rows = rows.rows()};
  if (!has_prologue) engine->run_prologue();
  has_prologue = true;
  for (int64_t first = 0; first < rows.rows(); first += micro_batch) {
    check_cancelled(planned->options);
    feeder.fill(*engine, first, 0);
    engine->run(program);
    const int64_t count = std::min(micro_batch, rows.rows() - first);
    if (has_loss)
      evaluation.loss +=
          static_cast<double>(*reinterpret_cast<const float*>(program.data(train::kLossName)));
    if (!sink) continue;
    for (const auto& [output, shape] : bucket.outputs)
      values[output] = {reinterpret_cast<const float*>(program.data(output)),
                        static_cast<size_t>(count * element_count(shape))};
    sink({.first_row = first, .rows = count, .values = values, .row_shapes = bucket.outputs});
  }
  return evaluation;
}

Session::Session(const Network& network, const SessionOptions& options)
    : Session(SessionPlan(network, options)) {}
Session::Session(const SessionPlan& plan) : impl_(Impl::open(plan.impl())) {}
Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

const PlanReport& Session::plan() const { return impl_->planned->plan.report; }
int64_t Session::updates() const { return impl_->counts.drawn; }
bool Session::has_input(const std::string& name) const {
  return std::ranges::any_of(impl_->planned->facts.inputs,
                             [&](const FedInput& input) { return input.name == name; });
}

const UpdateCounts& Session::counts() const { return impl_->counts; }

void Session::set_counts(const UpdateCounts& counts) {
  const int64_t least = std::min(counts.schedule, counts.optimizer);
  const int64_t most = std::max(counts.schedule, counts.optimizer);
  if (least < 0 || most > counts.drawn || counts.drawn > kMostUpdates)
    throw Error(ErrorCode::bad_config, "counts",
                std::to_string(counts.schedule) + " steps of the schedule and " +
                    std::to_string(counts.optimizer) + " of the optimizer after " +
                    std::to_string(counts.drawn) + " updates",
                "give those of the session that was saved");
  impl_->counts = counts;
}

const LossScale& Session::loss_scale() const { return impl_->loss_scale; }
bool Session::has_dynamic_loss_scale() const {
  return impl_->planned->rule.loss_scale.scaling == optim::LossScaling::dynamic;
}

void Session::set_loss_scale(const LossScale& scale) {
  const optim::LossScaleRule& rule = impl_->planned->rule.loss_scale;
  const auto fail = [](const std::string& what, const std::string& hint) {
    throw Error(ErrorCode::bad_config, "loss_scale", what, hint);
  };
  if (!has_dynamic_loss_scale())
    fail("the session's scale never changes", "set SessionOptions::loss_scale to dynamic");
  const bool is_value = scale.value >= rule.least && scale.value <= kLargestScale;
  if (!is_value || scale.clean_updates < 0 || scale.overflows < 0)
    fail("a scale of " + number_text(scale.value) + " after " +
             std::to_string(scale.clean_updates) + " updates and " +
             std::to_string(scale.overflows) + " overflows",
         "give that of the session that was saved");
  impl_->loss_scale = scale;
}

void Session::Impl::feed(const RowSource& batch) {
  const SessionOptions& options = planned->options;
  check_cancelled(options);
  if (options.only_evaluation)
    throw Error(ErrorCode::bad_config, "only_evaluation", "the session has no training programs",
                "leave only_evaluation away");
  if (batch.rows() > options.batch_rows)
    throw Error(ErrorCode::bad_data, "rows",
                std::to_string(batch.rows()) + " rows are more than the batch of " +
                    std::to_string(options.batch_rows) + " that the session was planned for",
                "give at most batch_rows rows");
  check_filled(planned->facts.coupling, batch.rows(), planned->plan.micro_batch);
  feeder.begin(batch, buckets_[bucket_of(batch.length())].training);
}

void Session::Impl::drop_gradients() {
  for (const auto& [tensor, entry] : planned->plan.residents.entries()) {
    if (tensor.starts_with(train::kGradientPrefix))
      std::ranges::fill(engine->write<std::byte>(tensor), std::byte{0});
  }
}

template <class Work>
auto Session::Impl::with_clean_gradients(const Work& work) {
  try {
    return work();
  } catch (...) {
    drop_gradients();
    throw;
  }
}

double Session::Impl::gradients() {
  return with_clean_gradients(
      [&] { return train::run_pieces(*engine, feeder, counts.drawn, loss_scale.value); });
}

train::UpdateResult Session::Impl::update(const StepOptions& options) {
  has_prologue = false;
  return with_clean_gradients([&] {
    return train::run_update(*engine, feeder, {.counts = counts, .loss_scale = loss_scale.value},
                             planned->rule, kept_buffers, options);
  });
}

GradientResult Session::gradients(const RowSource& batch) {
  Impl& it = *impl_;
  if (!it.planned->options.only_gradients)
    throw Error(ErrorCode::bad_config, "only_gradients",
                "the session updates its weights and keeps no gradients",
                "plan it with only_gradients = true");
  GradientResult result;
  const Impl::Use use(it);
  it.feed(batch);
  result.loss = it.gradients();
  const auto unscale = static_cast<float>(1 / it.loss_scale.value);
  for (const std::string& weight : it.planned->trained) {
    const std::string name = train::kGradientPrefix + weight;
    std::vector<float>& gradient = result.of[weight];
    if (!it.engine->has(name)) {  // the loss does not depend on it
      gradient.assign(static_cast<size_t>(element_count(it.entry(weight).type)), 0.0F);
      continue;
    }
    const std::span<float> sum = it.engine->write<float>(name);
    gradient.resize(sum.size());
    std::ranges::transform(sum, gradient.begin(), [unscale](float each) { return each * unscale; });
    std::fill(sum.begin(), sum.end(), 0.0F);  // as before every update
  }
  return result;
}

StepResult Session::step(const RowSource& batch, const StepOptions& options) {
  Impl& it = *impl_;
  if (it.planned->options.only_gradients)
    throw Error(ErrorCode::bad_config, "only_gradients", "the session has no optimizer to step",
                "call gradients, or leave only_gradients away");
  if (options.learning_rate) {
    TrainSpec spec;
    spec.learning_rate = *options.learning_rate;
    spec::check_ranges(spec);
  }
  const Impl::Use use(it);
  it.feed(batch);
  const train::UpdateResult result = it.update(options);
  const train::UpdateRule& rule = it.planned->rule;
  const double rate = options.learning_rate.value_or(
      it.planned->options.learning_rate * optim::rate_factor(rule.schedule, it.counts.schedule));
  const double scale = it.loss_scale.value;
  const bool has_overflowed = !std::isfinite(result.grad_norm);
  const bool falls =
      has_overflowed && !options.is_skipped && optim::may_overflow(rule.loss_scale, it.loss_scale);
  if (!options.is_skipped) it.count_update(falls);
  if (!falls && (has_overflowed || !std::isfinite(result.loss)))
    throw Error(ErrorCode::numeric, "update " + std::to_string(it.counts.drawn),
                "not finite: loss " + number_text(result.loss) + ", gradient norm " +
                    number_text(result.grad_norm) +
                    (it.planned->rule.loss_scale.scaling == optim::LossScaling::none
                         ? std::string()
                         : " at a loss scale of " + fmt::format("{}", scale)),
                "go back to what you saved, with a lower learning_rate or max_grad_norm");
  return {.update = it.counts.drawn,
          .loss = result.loss,
          .grad_norm = result.grad_norm,
          .learning_rate = rate,
          .loss_scale = scale,
          .is_skipped = falls};
}

void Session::Impl::count_update(bool is_skipped) {
  ++counts.drawn;
  if (!is_skipped) {
    ++counts.schedule;
    ++counts.optimizer;
  }
  loss_scale = optim::next_scale(planned->rule.loss_scale, loss_scale, is_skipped);
}

Evaluation Session::evaluate(const RowSource& rows, const OutputSink& sink) {
  return impl_->run_eval(rows, sink, false);
}

void Session::predict(const RowSource& rows, const OutputSink& sink) {
  (void)impl_->run_eval(rows, sink, true);
}

const ResidentLayout::Entry& Session::Impl::entry(const std::string& tensor) const {
  const bool is_there = engine->has(tensor) && !tensor.starts_with(train::kGradientPrefix);
  if (!is_there || !is_kept(planned->plan.residents.at(tensor).kind))
    throw Error(ErrorCode::bad_config, tensor, "the session has no tensor of this name",
                "tensors() lists them");
  return planned->plan.residents.at(tensor);
}

int64_t Session::Impl::columns_of(const std::string& weight, int64_t first_row,
                                  int64_t elements) const {
  const ResidentLayout::Entry& tensor = entry(weight);
  const Shape& shape = tensor.type.shape;
  const int64_t columns = shape.empty() || shape[0] == 0 ? 0 : element_count(shape) / shape[0];
  const bool is_whole = columns > 0 && elements % columns == 0;
  const bool is_inside = is_whole && first_row >= 0 && first_row <= shape[0] - elements / columns;
  if (!is_of_model(tensor.kind) || !is_inside)
    throw Error(ErrorCode::bad_config, weight,
                std::to_string(elements) + " elements from row " + std::to_string(first_row) +
                    " are no rows of a weight " + to_string(shape),
                "give whole rows of a weight or buffer");
  return columns;
}

std::vector<TensorInfo> Session::tensors() const {
  std::vector<TensorInfo> found;
  for (const auto& [name, entry] : impl_->planned->plan.residents.entries()) {
    if (!is_kept(entry.kind) || name.starts_with(train::kGradientPrefix)) continue;
    const TensorKind kind = entry.kind == ValueKind::parameter       ? TensorKind::parameter
                            : entry.kind == ValueKind::state         ? TensorKind::optimizer_state
                            : train::is_scales(*impl_->engine, name) ? TensorKind::scales
                                                                     : TensorKind::buffer;
    found.push_back({.name = name,
                     .shape = entry.type.shape,
                     .dtype = entry.type.dtype,
                     .kind = kind,
                     .is_trained = impl_->planned->trained.count(name) != 0});
  }
  return found;
}

std::span<const std::byte> Session::view_bytes(const std::string& name) const {
  (void)impl_->entry(name);
  return impl_->engine->read<std::byte>(name);
}

std::span<std::byte> Session::edit_bytes(const std::string& name) {
  (void)impl_->entry(name);
  impl_->has_prologue = false;
  return impl_->engine->write<std::byte>(name);
}

namespace {

void require_f32(const std::string& name, DType dtype) {
  if (dtype != DType::f32)
    throw Error(ErrorCode::bad_config, name,
                std::string("its elements are stored as ") + to_string(dtype),
                "view_bytes and edit_bytes give them, read and write their values");
}

void check_finite(const std::string& name, std::span<const float> values, int64_t first) {
  const int64_t bad = first_not_finite(values);
  if (bad >= 0)
    throw Error(ErrorCode::numeric, name,
                "element " + std::to_string(first + bad) + " is not finite");
}

void check_size(const std::string& name, std::span<const float> values, int64_t elements) {
  if (std::ssize(values) != elements)
    throw Error(ErrorCode::bad_config, name,
                std::to_string(values.size()) + " elements are given, the tensor has " +
                    std::to_string(elements));
}

}  // namespace

std::span<const float> Session::view(const std::string& name) const {
  require_f32(name, impl_->entry(name).type.dtype);
  return impl_->engine->read<float>(name);
}

std::span<float> Session::edit(const std::string& name) {
  require_f32(name, impl_->entry(name).type.dtype);
  impl_->has_prologue = false;
  return impl_->engine->write<float>(name);
}

void Session::read(const std::string& name, std::span<float> values) const {
  const TensorType& type = impl_->entry(name).type;
  check_size(name, values, element_count(type));
  const auto copy = [&values](const auto& own) {
    std::copy(own.begin(), own.end(), values.begin());
  };
  if (train::is_coded_weight(*impl_->engine, name))
    return train::read_coded_rows(*impl_->engine, name, 0, values);
  if (type.dtype == DType::u8) return copy(impl_->engine->read<uint8_t>(name));
  copy(view(name));
}

std::vector<float> Session::read(const std::string& name) const {
  std::vector<float> values(static_cast<size_t>(element_count(impl_->entry(name).type)));
  read(name, values);
  return values;
}

void Session::write(const std::string& name, std::span<const float> values) {
  const TensorType& type = impl_->entry(name).type;
  check_size(name, values, element_count(type));
  check_finite(name, values, 0);
  if (train::is_coded_weight(*impl_->engine, name)) return write_rows(name, 0, values);
  if (type.dtype != DType::u8) {
    std::copy(values.begin(), values.end(), edit(name).begin());
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

void Session::read_rows(const std::string& name, int64_t first_row, std::span<float> values) const {
  const int64_t columns = impl_->columns_of(name, first_row, std::ssize(values));
  if (train::is_coded_weight(*impl_->engine, name))
    return train::read_coded_rows(*impl_->engine, name, first_row, values);
  const std::span<const float> own = view(name);
  std::copy_n(own.begin() + first_row * columns, values.size(), values.begin());
}

void Session::write_rows(const std::string& name, int64_t first_row,
                         std::span<const float> values) {
  const int64_t columns = impl_->columns_of(name, first_row, std::ssize(values));
  check_finite(name, values, first_row * columns);
  impl_->has_prologue = false;
  if (train::is_coded_weight(*impl_->engine, name))
    return train::write_coded_rows(*impl_->engine, name, first_row, values);
  const std::span<float> own = edit(name);
  std::copy(values.begin(), values.end(), own.begin() + first_row * columns);
}

void Session::initialize(const std::string& name) {
  check_threads(impl_->planned->machine.threads());
  const ResidentLayout::Entry& entry = impl_->entry(name);
  if (train::is_scales(*impl_->engine, name))
    throw Error(ErrorCode::bad_config, name, "it is a part of a weight in 8 bits",
                "name the weight");
  if (!is_of_model(entry.kind))
    throw Error(ErrorCode::bad_config, name, "it is a state of the optimizer, which begins as 0",
                "name a weight or buffer");
  impl_->initialize(name, entry);
}

std::string Session::find_not_finite() const {
  const std::optional<NotFinite> found = train::find_not_finite(*impl_->engine);
  return found ? found->text() : std::string();
}

void Session::require_finite(const std::string& where) const {
  const std::optional<NotFinite> found = train::find_not_finite(*impl_->engine);
  if (found) refuse_not_finite(where, *found);
}

int64_t Session::measured_arena_bytes() {
  impl_->engine->check_memory();
  return train::reported_arena_bytes(impl_->planned->plan, impl_->engine->measured_arena_bytes());
}

void Session::set_poisoning(bool is_on) { impl_->engine->set_poisoning(is_on); }

}  // namespace snug
