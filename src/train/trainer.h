// SPDX-License-Identifier: Apache-2.0
// The training loop: draw, accumulate, update, log, evaluate, checkpoint. Every step between two
// updates is a pure function of (data, configuration, state), so a resumed run goes on to the same
// bits.
#pragma once

#include <optional>
#include <string>

#include "snug/run.h"
#include "train/state.h"
#include "train/training.h"

namespace snug::train {

struct TrainOutcome {
  RunStatus status = RunStatus::completed;
  EvalMetrics final_metrics;
  std::string weights_sha256;
};

/// Number of updates of the whole run.
[[nodiscard]] int64_t total_steps(const RunConfig& config, int64_t batches_per_epoch);

/// Trains from `state` to the end; `good_step` is that of the checkpoint in last/. Throws
/// Error{numeric} where a loss, gradient, weight or optimizer state is not finite; nothing of that
/// is saved.
[[nodiscard]] TrainOutcome run_training(TrainingContext& training, RunState state,
                                        std::optional<int64_t> good_step);

}  // namespace snug::train
