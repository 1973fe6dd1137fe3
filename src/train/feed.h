// SPDX-License-Identifier: Apache-2.0
// Puts one micro-batch of a global batch into the run's memory.
#pragma once

#include <cstdint>

#include "data/row_store.h"
#include "data/sampler.h"
#include "session/update.h"

namespace snug::train {

struct FeedContext {
  const data::RowStore* rows = nullptr;
  int32_t pad_id = 0;
  uint64_t seed = 0;
};

/// Fills the inputs of bucket `batch.bucket_length` for slots [first_slot, first_slot +
/// micro_batch). `update` counts updates from 0; the denominator is the label weight of the whole
/// global batch.
void feed_micro_batch(const Engine& engine, const FeedContext& context,
                      const data::BatchPlan& batch, int64_t first_slot, int64_t update);

/// A global batch for run_update. Refers to both; the context's rows are those of the batch.
class RowBatch : public BatchSource {
 public:
  RowBatch(const FeedContext& context, const data::BatchPlan& batch)
      : context_(context), batch_(batch) {}
  [[nodiscard]] int64_t rows() const override { return static_cast<int64_t>(batch_.rows.size()); }
  [[nodiscard]] int64_t length() const override { return batch_.bucket_length; }
  void fill(const Engine& engine, int64_t first_slot, int64_t drawn) const override {
    feed_micro_batch(engine, context_, batch_, first_slot, drawn);
  }

 private:
  const FeedContext& context_;
  const data::BatchPlan& batch_;
};

}  // namespace snug::train
