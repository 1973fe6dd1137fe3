// SPDX-License-Identifier: Apache-2.0
// The training loop: draw, accumulate, update, log, evaluate, checkpoint. Every step between two
// updates is a pure function of (data, configuration, state), so a resumed run goes on to the same
// bits.
#pragma once

#include <string>
#include <vector>

#include "data/sampler.h"
#include "setup/run_recipe.h"
#include "snug/run.h"
#include "train/checkpoint.h"
#include "train/evaluation.h"
#include "train/metrics_log.h"
#include "train/state.h"

namespace snug::train {

struct Training {
  const RunConfig* config = nullptr;
  const RunOptions* options = nullptr;
  Session* session = nullptr;
  const Model* model = nullptr;
  const Tokenizer* tokenizer = nullptr;  // null for images
  std::string base_sha256;               // of what adapters leave as it is
  FeedContext feed;                      // of the training rows
  data::TrainSampler* sampler = nullptr;
  int64_t total_steps = 0;
  EvalPass validation;  // an empty part: no evaluation
  RunFolder folder;
  std::vector<KeyChange> changes;  // on resume; the log says them
};

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
[[nodiscard]] TrainOutcome run_training(Training& training, TrainState state,
                                        std::optional<int64_t> good_step);

}  // namespace snug::train
