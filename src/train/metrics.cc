// SPDX-License-Identifier: Apache-2.0
#include "train/metrics.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace snug::train {

ClassificationMetrics::ClassificationMetrics(int64_t classes)
    : labelled_(static_cast<size_t>(classes)),
      predicted_(static_cast<size_t>(classes)),
      hits_(static_cast<size_t>(classes)) {}

void ClassificationMetrics::add(std::span<const float> logits, int32_t label, double loss) {
  SNUG_CHECK(label >= 0 && static_cast<size_t>(label) < labelled_.size(), "label out of range");
  const auto guess = static_cast<size_t>(argmax(logits));
  const auto truth = static_cast<size_t>(label);
  ++rows_;
  ++labelled_[truth];
  ++predicted_[guess];
  if (guess == truth) {
    ++correct_;
    ++hits_[truth];
  }
  loss_sum_ += loss;
}

EvalMetrics ClassificationMetrics::result(const std::vector<std::string>& names) const {
  EvalMetrics out{.rows = rows_, .loss = 0, .accuracy = 0, .macro_f1 = 0, .classes = {}};
  if (rows_ == 0) return out;
  out.loss = loss_sum_ / static_cast<double>(rows_);
  out.accuracy = static_cast<double>(correct_) / static_cast<double>(rows_);
  int64_t seen = 0;
  for (size_t i = 0; i < labelled_.size(); ++i) {
    const auto ratio = [](int64_t part, int64_t whole) {
      return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
    };
    const double precision = ratio(hits_[i], predicted_[i]);
    const double recall = ratio(hits_[i], labelled_[i]);
    const double f1 = ratio(2 * hits_[i], labelled_[i] + predicted_[i]);
    if (labelled_[i] + predicted_[i] > 0) {
      ++seen;
      out.macro_f1 += f1;
    }
    out.classes.push_back({.label = i < names.size() ? names[i] : std::to_string(i),
                           .rows = labelled_[i],
                           .precision = precision,
                           .recall = recall,
                           .f1 = f1});
  }
  out.macro_f1 /= static_cast<double>(std::max<int64_t>(seen, 1));
  return out;
}

double row_loss(std::span<const float> logits, int32_t label) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float z : logits) sum += std::exp(static_cast<double>(z) - top);
  return top + std::log(sum) - static_cast<double>(logits[static_cast<size_t>(label)]);
}

int32_t argmax(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace snug::train
