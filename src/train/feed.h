// SPDX-License-Identifier: Apache-2.0
// Rows on disk as a session reads them: what the model is fed from a row's tokens or pixels, and
// from its columns what the task feeds.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "data/row_store.h"
#include "data/sampler.h"
#include "snug/session.h"
#include "tasks/task.h"

namespace snug::train {

struct FeedContext {
  const data::RowStore* rows = nullptr;
  const tasks::Task* task = nullptr;
  int32_t pad_id = 0;
};

/// One batch after the other. Nothing allocates after construction.
class BatchRows final : public RowSource {
 public:
  explicit BatchRows(const FeedContext& context);

  /// What the batch points to outlives its use.
  void begin(const data::BatchPlan& batch) { batch_ = batch; }

  [[nodiscard]] int64_t rows() const override { return static_cast<int64_t>(batch_.rows.size()); }
  [[nodiscard]] Lengths length() const override { return batch_.bucket_length; }
  void fill(const RowSlot& slot) const override { fill_all({&slot, 1}); }
  void fill_all(std::span<const RowSlot> slots) const override;
  [[nodiscard]] std::optional<double> total_weight(const std::string& input) const override;

 private:
  FeedContext context_;
  data::BatchPlan batch_;
  mutable data::RowColumns row_;  // the one that is read
};

}  // namespace snug::train
