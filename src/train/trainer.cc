// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <set>

#include "base/numbers.h"
#include "notices/data_notices.h"
#include "notices/notices.h"
#include "optim/loss_scale.h"
#include "tasks/registry.h"
#include "train/batch_stream.h"
#include "train/checkpoint_writer.h"
#include "train/core_watch.h"
#include "train/run_logs.h"

namespace snug::train {
namespace {

using Clock = std::chrono::steady_clock;

bool is_cancelled(const RunOptions& options) {
  return options.cancel != nullptr && options.cancel->load();
}

/// Evaluates, keeps the best weights, and says whether patience is at its end.
class Judge {
 public:
  Judge(TrainingContext& training, RunState& state, const CheckpointWriter& writer)
      : training_(training), state_(state), writer_(writer) {}

  /// Nothing where a signal came before the last batch.
  [[nodiscard]] std::optional<EvalMetrics> evaluate() {
    std::optional<EvalMetrics> metrics = unless_cancelled();
    if (!metrics) return metrics;
    if (training_.options->callbacks.on_evaluation)
      training_.options->callbacks.on_evaluation(state_.step, *metrics);
    writer_.require_finite(*metrics, state_);
    for (const std::string& note : metrics->notes) {
      if (notes_.insert(note).second) notices::say(*training_.options, note);
    }
    for (const Warning& warning : metrics->warnings) {
      if (notes_.insert(warning.code).second) notices::warn(*training_.options, warning);
    }
    return metrics;
  }

  [[nodiscard]] bool keep_best(const EvalMetrics& metrics) {
    const RunConfig& config = *training_.config;
    const tasks::Metric& metric =
        *tasks::find_metric(*training_.model->task, config.metric_for_best_model);
    const double value = metrics.find(metric.name).value();
    const double sign = metric.is_greater_better ? 1.0 : -1.0;
    if (!std::isfinite(value)) {
      say_undefined(metric.name, metrics.rows);
      return false;
    }
    const auto is_better_than = [&](const std::optional<double>& other, double threshold) {
      return !other || sign * (value - *other) > threshold;
    };
    // The best there was; without best/ lost it is in best/.
    const std::optional<double> best = state_.lost_metric ? state_.lost_metric : state_.best_metric;
    // What is better is kept, by however little. Patience alone has a threshold, and measures from
    // the best before this evaluation, as transformers' callback does.
    const bool improves = is_better_than(best, config.early_stopping_threshold);
    if (is_better_than(best, 0)) state_.lost_metric.reset();
    if (is_better_than(state_.best_metric, 0)) {
      state_.best_metric = value;
      state_.best_step = state_.step;
      (void)training_.session->measured_arena_bytes();  // throws where a byte was written astray
      writer_.save_best(state_);
    }
    if (improves) {
      state_.stale_evaluations = 0;
      return false;
    }
    ++state_.stale_evaluations;
    return config.early_stopping_patience > 0 &&
           state_.stale_evaluations >= config.early_stopping_patience;
  }

 private:
  void say_undefined(const std::string& metric, int64_t rows) {
    if (was_undefined_) return;
    was_undefined_ = true;
    notices::warn(
        *training_.options,
        Warning{.code = "undefined_metric",
                .text = "metric_for_best_model " + metric + " is undefined on the " +
                        std::to_string(rows) +
                        " rows of this evaluation, which counts neither for best/ nor for "
                        "early_stopping_patience",
                .count = rows,
                .share = {}});
  }

  [[nodiscard]] std::optional<EvalMetrics> unless_cancelled() const {
    try {
      return evaluate_part(training_.validation, training_.model->task_context());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::cancelled) throw;
      return std::nullopt;
    }
  }

  TrainingContext& training_;
  RunState& state_;
  const CheckpointWriter& writer_;
  bool was_undefined_ = false;   // said once a run
  std::set<std::string> notes_;  // so are these
};

}  // namespace

int64_t total_steps(const RunConfig& config, int64_t batches_per_epoch) {
  if (config.max_steps > 0) return config.max_steps;
  return static_cast<int64_t>(
      std::ceil(config.num_train_epochs * static_cast<double>(batches_per_epoch)));
}

namespace {

/// The lines of the log: means over the updates since the line before. Throughput counts training
/// alone.
class UpdateLines {
 public:
  UpdateLines(TrainingContext& training, RunState& state, RunLogs& log)
      : training_(training), state_(state), log_(log) {}

  void add(const BatchStream& rows, const StepResult& result) {
    tokens_ += rows.batch().tokens;
    if (!result.is_skipped || std::isfinite(result.loss)) {
      state_.loss_sum += result.loss;
      ++state_.loss_count;
    }
    if (!is_line()) return;
    const UpdateLog line = line_of(rows, result);
    log_.write(line);
    if (training_.options->callbacks.on_update) training_.options->callbacks.on_update(line);
    state_.loss_sum = 0;
    state_.loss_count = 0;
    tokens_ = 0;
    waited_ = rows.waited();
    start_ = Clock::now();
  }
  void leave_out(Clock::duration time) { start_ += time; }

 private:
  [[nodiscard]] bool is_line() const {
    const RunConfig& config = *training_.config;
    return is_due(training_, config.logging_steps, state_.step) ||
           (config.logging_first_step && state_.step == 1) || state_.step == training_.total_steps;
  }
  [[nodiscard]] UpdateLog line_of(const BatchStream& rows, const StepResult& result) const {
    const std::chrono::duration<double> seconds = Clock::now() - start_;
    const data::BatchPlan& batch = rows.batch();
    return {.step = state_.step,
            .total_steps = training_.total_steps,
            .epoch = static_cast<double>(batch.epoch) +
                     static_cast<double>(batch.batch + 1) /
                         static_cast<double>(training_.sampler->batches_per_epoch()),
            // NaN where every update since was skipped, and none had a loss.
            .loss = plain_nan(state_.loss_sum / static_cast<double>(state_.loss_count)),
            .learning_rate = result.learning_rate,
            .grad_norm = result.grad_norm,
            .tokens_per_second = static_cast<double>(tokens_) / seconds.count(),
            .waiting_for_rows = (rows.waited() - waited_) / seconds,
            .arena_peak_bytes = training_.session->measured_arena_bytes(),
            .rss_bytes = current_rss_bytes(),
            .loss_scale = result.loss_scale,
            .skipped_updates = state_.step - state_.optimizer_step};
  }

  TrainingContext& training_;
  RunState& state_;
  RunLogs& log_;
  Clock::time_point start_ = Clock::now();
  int64_t tokens_ = 0;
  std::chrono::duration<double> waited_{0};  // up to the line before
};

StepResult step(Session& session, const RowSource& rows, const CheckpointWriter& writer) {
  const UpdateCounts before = session.counts();
  try {
    return session.step(rows);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::numeric) throw;
    writer.fail({FoundBy::update, before.drawn + 1, before.optimizer}, error.message());
  }
}

void say_skipped(const TrainingContext& training, const StepResult& result) {
  if (!result.is_skipped) return;
  notices::say(
      *training.options,
      fmt::format(
          "update {} is skipped: gradients overflowed at a loss scale of {}, the next has {}",
          result.update, result.loss_scale, training.session->loss_scale().value));
}

// The floor may have been raised since.
LossScale above_floor(const RunConfig& config, const LossScale& scale) {
  const std::string kind = config.loss_scale == "auto" ? "dynamic" : config.loss_scale;
  const double least = optim::make_loss_scale(kind, config.loss_scale_min).least;
  return scale.value > 0 && scale.value < least ? LossScale{.value = least} : scale;
}

// A state has a scale where that is dynamic. A run that changed to one begins with its first.
void take_up_loss_scale(const TrainingContext& training, RunState& state) {
  Session& session = *training.session;
  if (session.has_dynamic_loss_scale() && state.loss_scale)
    session.set_loss_scale(above_floor(*training.config, *state.loss_scale));
  state.loss_scale.reset();
  if (session.has_dynamic_loss_scale()) state.loss_scale = session.loss_scale();
}

bool evaluates_after(const RunState& state, const TrainingContext& training) {
  if (training.validation.part.size() == 0) return false;
  return state.step == training.total_steps ||
         is_due(training, training.config->eval_steps.or_epoch(), state.step);
}

}  // namespace

TrainOutcome run_training(TrainingContext& training, RunState state,
                          std::optional<int64_t> good_step) {
  const RunConfig& config = *training.config;
  const RunOptions& options = *training.options;
  RunLogs log(training, state);
  CheckpointWriter writer(training, good_step, state.optimizer_step);
  Judge judge(training, state, writer);
  TrainOutcome outcome;
  const auto save = [&] {
    (void)training.session->measured_arena_bytes();  // throws where a byte was written astray
    log.keep(state);
    outcome.weights_sha256 = writer.save_last(state);
    if (options.callbacks.on_checkpoint)
      options.callbacks.on_checkpoint(state.step, RunFolder{config.output_dir}.last());
  };
  // An evaluation that is owed belongs to the checkpoint that is archived.
  if (!state.owes_evaluation) writer.finish_archive();
  training.sampler->seek(state.epoch, state.batch);
  if (state.is_finished && state.step < training.total_steps)
    outcome.status = RunStatus::early_stopped;
  UpdateLines lines(training, state, log);
  BatchStream rows(training.feed, *training.sampler, *training.session,
                   training.total_steps - state.step);
  training.session->set_counts(state.counts());
  take_up_loss_scale(training, state);
  CoreWatch cores;
  const auto update = [&] {
    rows.next();
    const StepResult result = step(*training.session, rows, writer);
    notices::warn(options, cores.after_update());
    state.take(training.session->counts());
    if (state.loss_scale) state.loss_scale = training.session->loss_scale();
    say_skipped(training, result);
    state.epoch = rows.batch().next_epoch;
    state.batch = rows.batch().next_batch;
    if (options.callbacks.on_progress)
      options.callbacks.on_progress({"training", state.step, training.total_steps});
    lines.add(rows, result);
    state.owes_evaluation = evaluates_after(state, training);
  };
  const auto interrupted = [&] {
    state.is_finished = false;
    save();
    outcome.status = RunStatus::interrupted;
    return outcome;
  };
  std::optional<EvalMetrics> newest;
  while (state.owes_evaluation || (!state.is_finished && state.step < training.total_steps)) {
    newest.reset();
    if (!state.owes_evaluation) update();
    state.is_finished = state.step == training.total_steps;
    if (state.owes_evaluation) {
      const auto start = Clock::now();
      newest = judge.evaluate();
      if (!newest) return interrupted();
      state.owes_evaluation = false;
      const std::chrono::duration<double> seconds = Clock::now() - start;
      log.write({.step = state.step,
                 .epoch = state.epochs_done(training.sampler->batches_per_epoch()),
                 .metrics = &*newest,
                 .seconds = seconds.count()});
      if (judge.keep_best(*newest) && !state.is_finished) {
        outcome.status = RunStatus::early_stopped;
        state.is_finished = true;
      }
      lines.leave_out(Clock::now() - start);
    }
    if (is_cancelled(options) && !state.is_finished) return interrupted();
    if (!state.is_finished && !is_due(training, config.save_steps, state.step)) continue;
    save();
    writer.archive();
  }
  // A finished run that is resumed: its last checkpoint is whole, only the summary is made again.
  if (outcome.weights_sha256.empty()) save();
  if (training.validation.part.size() == 0) return outcome;
  if (!newest) newest = judge.evaluate();
  if (!newest) outcome.status = RunStatus::interrupted;
  outcome.final_metrics = newest.value_or(EvalMetrics());
  return outcome;
}

}  // namespace snug::train
