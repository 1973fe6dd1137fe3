// SPDX-License-Identifier: Apache-2.0
#include "snug/session.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/finite.h"
#include "base/float_mode.h"
#include "base/numbers.h"
#include "base/threads.h"
#include "compile/value_names.h"
#include "session/coded_weight.h"
#include "session/session_impl.h"
#include "snug/error.h"
#include "spec/table.h"

namespace snug {
namespace {

constexpr int64_t kMostUpdates = int64_t{1} << 53;  // and are exact as f64
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

std::string scale_text(const optim::LossScaleRule& rule, double scale) {
  if (rule.scaling == optim::LossScaling::none) return {};
  return " at a loss scale of " + fmt::format("{}", scale);
}

void check_cancelled(const SessionOptions& options) {
  if (options.cancel != nullptr && options.cancel->load())
    throw Error(ErrorCode::cancelled, "step", "stopped on request");
}

std::unique_ptr<session::Engine> make_engine(const SessionPlan::Impl& planned) {
  // Planning used heap that the budget has no place for beside the block.
  if (planned.options.process_bytes > 0) malloc_trim(0);
  return std::make_unique<session::Engine>(planned.plan, *planned.machine.impl().backend,
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
session::BlockLease::BlockLease(const SessionPlan::Impl& plan)
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
  const choose::RunPlan& run = planned->plan;
  for (size_t i = 0; i < run.eval.size(); ++i) {
    const Graph& eval = run.eval[i].graph;
    Bucket bucket{.training = {},
                  .evaluation = session::inputs_of(eval, planned->facts),
                  .prediction = session::inputs_of_outputs(eval, planned->facts),
                  .outputs = {}};
    if (!run.train.empty())
      bucket.training = session::inputs_of(run.train[i].graph, planned->facts);
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
    if (is_of_model(entry.kind) && !session::is_scales(*engine, name)) initialize(name, entry);
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
  check_whole();
  const int64_t micro_batch = planned->plan.micro_batch;
  check_filled(planned->facts.eval_coupling, rows.rows(), micro_batch);
  const size_t index = bucket_of(rows.length());
  const Bucket& bucket = buckets_[index];
  feeder.begin(rows, has_outputs_alone ? bucket.prediction : bucket.evaluation);
  runtime::Executable& program = engine->eval(index);
  const bool has_loss = planned->plan.eval[index].graph.find(compile::kLossName) != kNone;
  std::map<std::string, std::span<const float>> values;
  std::map<std::string, std::vector<std::byte>> copies;  // where the host cannot read the outputs
  Evaluation evaluation{.rows = rows.rows()};
  if (!has_prologue || is_edited) engine->run_prologue();
  has_prologue = true;
  for (int64_t first = 0; first < rows.rows(); first += micro_batch) {
    check_cancelled(planned->options);
    feeder.fill(*engine, first, 0);
    engine->run(program);
    const int64_t count = std::min(micro_batch, rows.rows() - first);
    if (has_loss) evaluation.loss += engine->scalar(program, compile::kLossName);
    if (!sink) continue;
    for (const auto& [output, shape] : bucket.outputs)
      values[output] =
          engine->output<float>(program, output, count * element_count(shape), copies[output]);
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
                             [&](const network::FedInput& input) { return input.name == name; });
}

std::vector<RowSlot> Session::row_slots(const Lengths& length) const {
  return session::row_slots(impl_->training_inputs(length));
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
  impl_->loss_of_weights = nullptr;
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
  check_whole();
  if (options.only_evaluation)
    throw Error(ErrorCode::bad_config, "only_evaluation", "the session has no training programs",
                "omit only_evaluation");
  if (batch.rows() > options.batch_rows)
    throw Error(ErrorCode::bad_data, "rows",
                std::to_string(batch.rows()) + " rows are more than the batch of " +
                    std::to_string(options.batch_rows) + " that the session was planned for",
                "give at most batch_rows rows");
  check_filled(planned->facts.coupling, batch.rows(), planned->plan.micro_batch);
  feeder.begin(batch, training_inputs(batch.length()));
}

const session::ProgramInputs& Session::Impl::training_inputs(const Lengths& length) const {
  return buckets_[bucket_of(length)].training;
}

void Session::Impl::drop_gradients() {
  for (const auto& [tensor, entry] : planned->plan.residents.entries()) {
    if (tensor.starts_with(compile::kGradientPrefix)) engine->fill(tensor, std::byte{0});
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
      [&] { return session::run_pieces(*engine, feeder, counts.drawn, loss_scale.value); });
}

session::UpdateResult Session::Impl::update(const StepOptions& options) {
  has_prologue = false;
  return with_clean_gradients([&] {
    try {
      return session::run_update(*engine, feeder,
                                 {.counts = counts, .loss_scale = loss_scale.value}, planned->rule,
                                 kept_buffers, options);
    } catch (const runtime::FailedBehindUpdate&) {
      loss_of_weights = "its last update failed when some weights had moved and others had not";
      throw;
    }
  });
}

void Session::Impl::check_whole() const {
  if (loss_of_weights != nullptr)
    throw Error(ErrorCode::bad_config, "session", loss_of_weights,
                "resume what you saved, or write weights and states that belong together and then "
                "set_counts");
}

GradientResult Session::gradients(const RowSource& batch) {
  Impl& it = *impl_;
  if (!it.planned->options.only_gradients)
    throw Error(ErrorCode::bad_config, "only_gradients",
                "the session updates its weights and keeps no gradients",
                "plan it with only_gradients = true");
  const Impl::Use use(it);
  for (;;) {
    it.feed(batch);
    GradientResult result;
    result.loss = it.gradients();
    if (!std::isfinite(result.loss)) {
      it.drop_gradients();
      throw Error(ErrorCode::numeric, "gradients", "not finite: loss " + number_text(result.loss),
                  "look for rows that are not finite");
    }
    const std::string* bad = it.read_gradients(result.of);
    const optim::LossScaleRule& rule = it.planned->rule.loss_scale;
    const double scale = it.loss_scale.value;
    const bool falls = bad != nullptr && optim::may_overflow(rule, it.loss_scale);
    it.loss_scale = optim::next_scale(rule, it.loss_scale, bad != nullptr);
    if (bad == nullptr) return result;
    if (falls) continue;
    throw Error(ErrorCode::numeric, "gradients",
                "not finite: that of '" + *bad + "', at a loss of " + number_text(result.loss) +
                    scale_text(rule, scale),
                rule.scaling == optim::LossScaling::constant ? "give a smaller loss_scale"
                                                             : "look for weights that are large");
  }
}

const std::string* Session::Impl::read_gradients(std::map<std::string, std::vector<float>>& to) {
  const auto unscale = static_cast<float>(1 / loss_scale.value);
  const std::string* bad = nullptr;
  for (const std::string& weight : planned->trained) {
    const std::string name = compile::kGradientPrefix + weight;
    std::vector<float>& gradient = to[weight];
    gradient.resize(static_cast<size_t>(element_count(entry(weight).type)));
    if (!engine->has(name)) continue;  // the loss does not depend on it
    engine->read<float>(name, 0, gradient);
    for (float& each : gradient) each *= unscale;
    if (bad == nullptr && first_not_finite(gradient) >= 0) bad = &weight;
    engine->fill(name, std::byte{0});  // as before every update
  }
  return bad;
}

StepResult Session::step(const RowSource& batch, const StepOptions& options) {
  Impl& it = *impl_;
  if (it.planned->options.only_gradients)
    throw Error(ErrorCode::bad_config, "only_gradients", "the session has no optimizer to step",
                "call gradients, or omit only_gradients");
  if (options.learning_rate) {
    TrainSpec spec;
    spec.learning_rate = *options.learning_rate;
    spec::check_ranges(spec);
  }
  const Impl::Use use(it);
  it.feed(batch);
  const session::UpdateResult result = it.update(options);
  const session::UpdateRule& rule = it.planned->rule;
  const double rate = options.learning_rate.value_or(
      it.planned->options.learning_rate * optim::rate_factor(rule.schedule, it.counts.schedule));
  const double scale = it.loss_scale.value;
  const bool has_overflowed = !std::isfinite(result.grad_norm);
  const bool falls =
      has_overflowed && !options.is_skipped && optim::may_overflow(rule.loss_scale, it.loss_scale);
  if (!options.is_skipped) it.count_update(falls);
  if (!falls && (has_overflowed || !std::isfinite(result.loss))) {
    if (!options.is_skipped) it.loss_of_weights = "its last update was not finite";
    throw Error(ErrorCode::numeric, "update " + std::to_string(it.counts.drawn),
                "not finite: loss " + number_text(result.loss) + ", gradient norm " +
                    number_text(result.grad_norm) + scale_text(rule.loss_scale, scale),
                options.is_skipped
                    ? "look for rows that are not finite; nothing has moved"
                    : "go back to what you saved, with a lower learning_rate or max_grad_norm");
  }
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

int64_t Session::measured_arena_bytes() {
  impl_->engine->check_memory();
  return choose::reported_arena_bytes(impl_->planned->plan, impl_->engine->measured_arena_bytes());
}

void Session::set_poisoning(bool is_on) { impl_->engine->set_poisoning(is_on); }

}  // namespace snug
