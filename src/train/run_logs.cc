// SPDX-License-Identifier: Apache-2.0
#include "train/run_logs.h"

#include "setup/notices.h"

namespace snug::train {
namespace {

/// The log as far as the checkpoint counts on it.
MetricsLog continued(const Training& training, const char* name, int64_t bytes) {
  MetricsLog log(training.folder.file(name), bytes);
  if (log.bytes() < bytes) {
    say(*training.options, std::string(name) + " lost lines: the checkpoint counts on " +
                               std::to_string(bytes) + " bytes, whole lines make " +
                               std::to_string(log.bytes()));
  }
  return log;
}

}  // namespace

RunLogs::RunLogs(const Training& training, const TrainState& state)
    : updates_(continued(training, kUpdateLog, state.metrics_bytes)),
      evaluations_(continued(training, kEvaluationLog, state.evaluations_bytes)) {
  if (!training.changes.empty()) updates_.write(state.step, training.changes);
}

void RunLogs::write(const UpdateLog& line) { updates_.write(line); }

void RunLogs::write(const EvaluationLog& line) { evaluations_.write(line); }

void RunLogs::keep(TrainState& state) {
  updates_.sync();
  evaluations_.sync();
  state.metrics_bytes = updates_.bytes();
  state.evaluations_bytes = evaluations_.bytes();
}

}  // namespace snug::train
