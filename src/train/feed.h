// SPDX-License-Identifier: Apache-2.0
// Rows on disk as a session reads them: what the model is fed from a row's tokens or pixels, and
// from its columns what the task feeds.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/row_store.h"
#include "data/sampler.h"
#include "data/split.h"
#include "snug/session.h"
#include "tasks/task.h"

namespace snug::train {

struct FeedContext {
  const data::RowStore* rows = nullptr;
  const tasks::Task* task = nullptr;
  int32_t pad_id = 0;
  /// By label id, of a task whose labels are ids; empty: all count the same. Outlives the context.
  std::span<const double> class_weights{};
  int64_t longest = 0;  // row in tokens
};

/// The weight of every label that the run asks for: what `class_weights` lists, or of `balanced`
/// those of the rows of `part`. Throws Error{bad_config}.
[[nodiscard]] std::vector<double> class_weights_of(const RunConfig& config,
                                                   const FeedContext& context,
                                                   const data::Subset& part,
                                                   const std::vector<std::string>& labels);

/// Throws Error{bad_config} for listed weights that are no numbers of at least 0.
void check_class_weights(const RunConfig& config);
/// Throws Error{bad_config} for listed weights that are not those of the labels.
void check_class_weights(const RunConfig& config, const std::vector<std::string>& labels);

/// Throws Error{bad_data} where every row of `part` has the weight 0: nothing would be learned, and
/// weight decay alone would move the weights.
void refuse_weightless_rows(const FeedContext& context, const data::Subset& part,
                            const std::string& column);

/// "classes weigh ...", where they do.
[[nodiscard]] std::string class_weight_notice(const std::vector<double>& weights,
                                              const std::vector<std::string>& labels);

/// What a task writes of one row, for labels that are ids: of the row, or one of each token.
struct RowLabels {
  explicit RowLabels(const FeedContext& context);
  [[nodiscard]] tasks::FedRow fed() {
    return {.labels = std::as_writable_bytes(std::span(ids)), .weights = weights};
  }
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

/// One batch after the other. Nothing allocates after construction.
class BatchRows final : public RowSource {
 public:
  explicit BatchRows(const FeedContext& context);

  /// Whether the total weight of the rows is that of this input.
  [[nodiscard]] static bool is_weighed_by(const std::string& input);
  /// What the batch points to outlives its use.
  void begin(const data::BatchPlan& batch) {
    batch_ = batch;
    context_.rows->expect(batch.rows);
  }

  [[nodiscard]] int64_t rows() const override { return static_cast<int64_t>(batch_.rows.size()); }
  [[nodiscard]] Lengths length() const override { return batch_.bucket_length; }
  void fill(const RowSlot& slot) const override { fill_all({&slot, 1}); }
  void fill_all(std::span<const RowSlot> slots) const override { (void)fill_weighed(slots); }
  /// Says what the rows that it fills weigh together in the loss; 0 where they are not fed for it.
  [[nodiscard]] double fill_weighed(std::span<const RowSlot> slots) const;
  [[nodiscard]] std::optional<double> total_weight(const std::string& input) const override;

 private:
  void feed_row(int64_t row, const tasks::FedRow& fed) const;
  /// What the row in `row_` weighs, which was fed so where classes have weights.
  void add_weight(const tasks::FedRow& fed, double& sum) const;

  FeedContext context_;
  std::optional<size_t> row_weight_;  // its column
  data::BatchPlan batch_;
  mutable data::RowColumns row_;  // the one that is read
  mutable RowLabels labels_;      // of one row
};

}  // namespace snug::train
