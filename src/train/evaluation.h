// SPDX-License-Identifier: Apache-2.0
// Runs the evaluation programs over a part of the data. Memory: one micro-batch of logits; metrics
// are streamed.
#pragma once

#include <atomic>
#include <functional>
#include <span>

#include "data/split.h"
#include "session/engine.h"
#include "snug/run.h"
#include "train/feed.h"

namespace snug::train {

struct EvalPass {
  Engine* engine = nullptr;
  FeedContext feed;
  data::Part part;
  std::vector<int32_t> buckets;
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(int64_t done, int64_t total)> on_progress;
};

/// Calls `sink` for every row: its id in the cache, label (kIgnoredLabel where there is none) and
/// logits. Rows come in an order of their own (by length). Throws Error{cancelled} between two
/// batches where asked to stop.
void for_each_row(
    const EvalPass& pass,
    const std::function<void(int64_t row, int32_t label, std::span<const float> logits)>& sink);

[[nodiscard]] EvalMetrics evaluate_part(const EvalPass& pass,
                                        const std::vector<std::string>& labels);

}  // namespace snug::train
