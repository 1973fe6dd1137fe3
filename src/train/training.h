// SPDX-License-Identifier: Apache-2.0
// What a run trains with: the parts that the loop, its logs and its checkpoints share.
#pragma once

#include <string>
#include <vector>

#include "data/sampler.h"
#include "snug/run.h"
#include "train/checkpoint.h"
#include "train/evaluation.h"
#include "train/metrics_log.h"
#include "train/run_recipe.h"

namespace snug::train {

struct TrainingContext {
  const RunConfig* config = nullptr;
  const RunOptions* options = nullptr;
  Session* session = nullptr;
  const run_model::Model* model = nullptr;
  const text::Tokenizer* tokenizer = nullptr;  // null for images
  std::string base_sha256;                     // of what adapters leave as it is
  FeedContext feed;                            // of the training rows
  data::TrainSampler* sampler = nullptr;
  int64_t total_steps = 0;
  EvalPass validation;  // an empty part: no evaluation
  RunFolder folder;
  std::vector<KeyChange> changes;  // on resume; the log says them
  const PlanReport* plan = nullptr;
};

/// Whether what happens in this interval happens after the update, the last one not counted in.
[[nodiscard]] inline bool is_due(const TrainingContext& training, const Interval& interval,
                                 int64_t step) {
  const int64_t every =
      interval.updates(training.total_steps, training.sampler->batches_per_epoch());
  return every > 0 && step % every == 0;
}

}  // namespace snug::train
