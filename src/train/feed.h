// SPDX-License-Identifier: Apache-2.0
// Puts the micro-batches of a global batch into the run's memory.
#pragma once

#include <cstdint>
#include <optional>

#include "data/row_store.h"
#include "data/sampler.h"
#include "session/update.h"
#include "tasks/task.h"

namespace snug::train {

struct FeedContext {
  const data::RowStore* rows = nullptr;
  const tasks::Task* task = nullptr;
  int32_t pad_id = 0;
  uint64_t seed = 0;
};

/// Feeds the pieces of one global batch after the other. Nothing allocates after construction.
class Feeder {
 public:
  explicit Feeder(const FeedContext& context);

  /// A new global batch; what it points to outlives its pieces.
  void begin(const data::BatchPlan& batch);
  /// Fills the inputs of bucket `batch.bucket_length` for slots [first_slot, first_slot +
  /// micro_batch). `update` counts updates from 0; the denominator is the weight of the whole
  /// global batch.
  void feed(const Engine& engine, int64_t first_slot, int64_t update);

 private:
  [[nodiscard]] double batch_weight();
  void feed_labels(const Engine& engine, int64_t first_slot);

  FeedContext context_;
  data::BatchPlan batch_;
  std::optional<double> weight_;  // of the batch, once it is known
  data::RowColumns row_;
};

/// A global batch for run_update.
class RowBatch : public BatchSource {
 public:
  RowBatch(Feeder& feeder, const data::BatchPlan& batch) : feeder_(feeder), batch_(batch) {
    feeder_.begin(batch);
  }
  [[nodiscard]] int64_t rows() const override { return static_cast<int64_t>(batch_.rows.size()); }
  [[nodiscard]] Lengths length() const override { return batch_.bucket_length; }
  void fill(const Engine& engine, int64_t first_slot, int64_t drawn) const override {
    feeder_.feed(engine, first_slot, drawn);
  }

 private:
  Feeder& feeder_;
  data::BatchPlan batch_;
};

}  // namespace snug::train
