// SPDX-License-Identifier: Apache-2.0
// Area under the ROC curve: of all pairs of a row that has a label and one that has not, the share
// in which the former has the higher score; ties count half.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "snug/run.h"
#include "tasks/task.h"

namespace snug::tasks {

inline constexpr const char* kRocAuc = "roc_auc";

struct ScoredRow {
  double score = 0;
  bool has_label = false;
};
/// NaN where every row has the label, or none. Sorts the rows.
[[nodiscard]] double roc_auc(std::span<ScoredRow> rows);

/// The scores of all rows, by label: the area needs their order. They grow with rows x labels, so
/// beyond kMostBytes they are kept only where metric_for_best_model is roc_auc. That is a function
/// of rows, labels and configuration, never of the budget.
class KeptScores {
 public:
  static constexpr int64_t kMostBytes = int64_t{16} << 20;

  KeptScores(std::vector<std::string> labels, int64_t rows, const TaskSettings& settings);
  /// What an object takes, with what metric() takes.
  [[nodiscard]] static int64_t bytes(int64_t labels, int64_t rows, const TaskSettings& settings);

  [[nodiscard]] bool are_kept() const { return are_kept_; }
  /// A score and whether the row has it, for each label; only where they are kept.
  void add(std::span<const double> scores, const std::vector<bool>& has_label);
  /// Mean over the labels as scikit-learn has it: not defined where a label is in no row or in all.
  [[nodiscard]] MetricValue metric() const;

 private:
  [[nodiscard]] size_t rows() const { return has_label_.size() / labels_.size(); }

  std::vector<std::string> labels_;
  int64_t needed_ = 0;
  bool are_kept_ = false;
  std::vector<double> scores_;   // row by row
  std::vector<bool> has_label_;  // likewise
  std::vector<size_t> counts_;   // rows that have it, by label
};

}  // namespace snug::tasks
