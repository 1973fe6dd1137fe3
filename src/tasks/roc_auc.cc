// SPDX-License-Identifier: Apache-2.0
#include "tasks/roc_auc.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/printable.h"
#include "base/units.h"
#include "base/utf8.h"

namespace snug::tasks {
namespace {

constexpr size_t kMostNameBytes = 40;

int64_t needed_bytes(int64_t labels, int64_t rows) {
  const int64_t sorted = rows * static_cast<int64_t>(sizeof(ScoredRow));
  const int64_t kept = rows * labels * static_cast<int64_t>(sizeof(double));
  return kept + rows * labels / 8 + sorted;
}

bool keeps(int64_t needed, const TaskSettings& settings) {
  return settings.chosen_by == kRocAuc || needed <= KeptScores::kMostBytes;
}

MetricValue undefined(const std::string& why) {
  return {kRocAuc, std::numeric_limits<double>::quiet_NaN(), "ROC-AUC undefined (" + why + ")"};
}

}  // namespace

double roc_auc(std::span<ScoredRow> rows) {
  // There is no order among numbers of which one is none.
  if (std::any_of(rows.begin(), rows.end(),
                  [](const ScoredRow& row) { return std::isnan(row.score); }))
    return std::numeric_limits<double>::quiet_NaN();
  std::sort(rows.begin(), rows.end(),
            [](const ScoredRow& a, const ScoredRow& b) { return a.score < b.score; });
  double with = 0;
  double without = 0;
  double pairs = 0;
  for (size_t begin = 0; begin < rows.size();) {
    double tied_with = 0;
    double tied_without = 0;
    const double score = rows[begin].score;
    for (; begin < rows.size() && rows[begin].score == score; ++begin)
      (rows[begin].has_label ? tied_with : tied_without) += 1;
    pairs += tied_with * (without + tied_without / 2);
    with += tied_with;
    without += tied_without;
  }
  return with * without == 0 ? std::numeric_limits<double>::quiet_NaN() : pairs / (with * without);
}

KeptScores::KeptScores(std::vector<std::string> labels, int64_t rows, const TaskSettings& settings)
    : labels_(std::move(labels)),
      needed_(needed_bytes(static_cast<int64_t>(labels_.size()), rows)),
      are_kept_(keeps(needed_, settings)),
      counts_(labels_.size()) {
  if (!are_kept_) return;
  scores_.reserve(labels_.size() * static_cast<size_t>(rows));
  has_label_.reserve(labels_.size() * static_cast<size_t>(rows));
}

int64_t KeptScores::bytes(int64_t labels, int64_t rows, const TaskSettings& settings) {
  const int64_t needed = needed_bytes(labels, rows);
  return keeps(needed, settings) ? needed : 0;
}

void KeptScores::add(std::span<const double> scores, const std::vector<bool>& has_label) {
  SNUG_CHECK(scores.size() == labels_.size() && has_label.size() == labels_.size(),
             "a score for each label");
  scores_.insert(scores_.end(), scores.begin(), scores.end());
  has_label_.insert(has_label_.end(), has_label.begin(), has_label.end());
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += has_label[i] ? 1 : 0;
}

MetricValue KeptScores::metric() const {
  if (!are_kept_) {
    return undefined("not gathered: the scores of all rows take " + format_bytes(needed_) +
                     "; metric_for_best_model: " + kRocAuc + " asks for them");
  }
  if (labels_.empty() || rows() == 0) return undefined("no rows");
  for (size_t i = 0; i < labels_.size(); ++i) {
    const std::string label = "'" + printable_name(clip_text(labels_[i], kMostNameBytes)) + "'";
    if (counts_[i] == 0) return undefined("no row is " + label);
    if (counts_[i] == rows()) return undefined("every row is " + label);
  }
  std::vector<ScoredRow> sorted(rows());
  double sum = 0;
  for (size_t label = 0; label < labels_.size(); ++label) {
    for (size_t row = 0; row < sorted.size(); ++row) {
      const size_t at = row * labels_.size() + label;
      sorted[row] = {scores_[at], has_label_[at]};
    }
    sum += roc_auc(sorted);
  }
  const double mean = sum / static_cast<double>(labels_.size());
  return {kRocAuc, mean, number_text("ROC-AUC", mean)};
}

}  // namespace snug::tasks
