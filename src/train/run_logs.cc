// SPDX-License-Identifier: Apache-2.0
#include "train/run_logs.h"

#include <chrono>
#include <vector>

#include "notices/notices.h"

namespace snug::train {
namespace {

double wall_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

io::EventTime at(int64_t step) { return {wall_time(), step}; }

/// The log as far as the checkpoint counts on it.
MetricsLog continued(const TrainingContext& training, const char* name, int64_t bytes) {
  MetricsLog log(training.folder.file(name), bytes);
  if (log.bytes() < bytes) {
    notices::say(*training.options, std::string(name) + " lost lines: the checkpoint counts on " +
                                        std::to_string(bytes) + " bytes, whole lines make " +
                                        std::to_string(log.bytes()));
  }
  return log;
}

std::vector<io::Scalar> planned(const PlanReport& plan) {
  return {{"memory/planned_peak_bytes", static_cast<double>(plan.planned_peak_bytes)},
          {"memory/planned_arena_bytes", static_cast<double>(plan.arena_bytes)},
          {"memory/planned_resident_bytes", static_cast<double>(plan.resident_bytes)},
          {"memory/planned_process_bytes", static_cast<double>(plan.process_bytes)}};
}

}  // namespace

RunLogs::RunLogs(const TrainingContext& training, const RunState& state)
    : updates_(continued(training, kUpdateLog, state.metrics_bytes)),
      evaluations_(continued(training, kEvaluationLog, state.evaluations_bytes)) {
  if (!training.changes.empty()) updates_.write(state.step, training.changes);
  const bool trains =
      state.owes_evaluation || (!state.is_finished && state.step < training.total_steps);
  if (training.config->report_to != "tensorboard" || !trains) return;
  const io::EventTime now = at(state.step);
  const std::string path =
      io::next_event_file(training.folder.file("runs"), static_cast<int64_t>(now.wall_time));
  events_.emplace(path, io::EventTime{now.wall_time, state.step + 1});
  events_->write(now, planned(*training.plan));
  events_->write(now, "plan/text_summary", "```\n" + training.plan->to_text() + "\n```");
}

// Names of transformers' callback; what is Snug's own beside them.
void RunLogs::write(const UpdateLog& line) {
  updates_.write(line);
  if (!events_) return;
  const std::vector<io::Scalar> scalars = {
      {"train/loss", line.loss},
      {"train/grad_norm", line.grad_norm},
      {"train/learning_rate", line.learning_rate},
      {"train/epoch", line.epoch},
      {"train/tokens_per_second", line.tokens_per_second},
      {"train/waiting_for_rows", line.waiting_for_rows},
      {"train/loss_scale", line.loss_scale},
      {"train/skipped_updates", static_cast<double>(line.skipped_updates)},
      {"memory/measured_arena_bytes", static_cast<double>(line.arena_peak_bytes)},
      {"memory/measured_process_bytes", static_cast<double>(line.rss_bytes)}};
  events_->write(at(line.step), scalars);
}

void RunLogs::write(const EvaluationLog& line) {
  evaluations_.write(line);
  if (!events_) return;
  std::vector<io::Scalar> scalars = {{"eval/loss", line.metrics->loss}};
  for (const MetricValue& each : line.metrics->values)
    scalars.push_back({"eval/" + each.name, each.value});
  scalars.push_back({"eval/runtime", line.seconds});
  scalars.push_back({"eval/samples_per_second", line.rows_per_second()});
  events_->write(at(line.step), scalars);
}

void RunLogs::keep(RunState& state) {
  updates_.sync();
  evaluations_.sync();
  if (events_) events_->sync();
  state.metrics_bytes = updates_.bytes();
  state.evaluations_bytes = evaluations_.bytes();
}

}  // namespace snug::train
