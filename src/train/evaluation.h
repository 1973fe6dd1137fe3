// SPDX-License-Identifier: Apache-2.0
// Evaluates a part of the data. Memory: one micro-batch of logits; metrics are streamed.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <string>

#include "data/split.h"
#include "snug/run.h"
#include "snug/session.h"
#include "train/feed.h"

namespace snug::train {

struct EvalPass {
  Session* session = nullptr;
  FeedContext feed;
  data::Subset part;
  std::vector<int32_t> buckets;
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(int64_t done, int64_t total)> on_progress;
  std::string waiting_file;  // where rows wait for their order; has no name while it is used
};

/// What an evaluation says of a row; both views end with the call.
struct EvaluatedRow {
  int64_t row = 0;  // its id in the store
  const data::RowColumns& columns;
  std::span<const float> output;  // of the network
};
/// Calls `sink` for every row, in an order of their own (by length). Throws Error{cancelled}
/// between two batches where asked to stop.
void for_each_row(const EvalPass& pass, const std::function<void(const EvaluatedRow&)>& sink);

/// The same for every text in the order of the file, `row` being its place: windows of a text are
/// one. `pass.part` is the whole file.
void for_each_text(const EvalPass& pass, int64_t labels,
                   const std::function<void(const EvaluatedRow&)>& sink);

[[nodiscard]] EvalMetrics evaluate_part(const EvalPass& pass, const tasks::Context& context);

}  // namespace snug::train
