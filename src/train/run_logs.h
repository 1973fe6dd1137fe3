// SPDX-License-Identifier: Apache-2.0
// What a run says of itself on disk while it trains: metrics.jsonl, evaluations.jsonl and, where
// report_to asks for it, TensorBoard's event files in runs/. A resumed run cuts the lines behind
// its checkpoint, and begins an event file that hides the events behind it.
#pragma once

#include <optional>

#include "io/event_file.h"
#include "train/metrics_log.h"
#include "train/state.h"
#include "train/training.h"

namespace snug::train {

class RunLogs {
 public:
  RunLogs(const TrainingContext& training, const RunState& state);
  void write(const UpdateLog& line);
  void write(const EvaluationLog& line);
  /// Forces all to the disk, and notes how far the checkpoint counts on it.
  void keep(RunState& state);

 private:
  MetricsLog updates_;
  MetricsLog evaluations_;
  std::optional<io::EventFile> events_;
};

}  // namespace snug::train
