// SPDX-License-Identifier: Apache-2.0
// Streaming classification metrics: a few counters a class, whatever the number of rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "snug/run.h"

namespace snug::train {

class ClassificationMetrics {
 public:
  explicit ClassificationMetrics(int64_t classes);

  /// Adds one row: its logits, label and loss. Ties go to the lower class.
  void add(std::span<const float> logits, int32_t label, double loss);
  [[nodiscard]] EvalMetrics result(const std::vector<std::string>& names) const;

 private:
  int64_t rows_ = 0;
  int64_t correct_ = 0;
  double loss_sum_ = 0;
  std::vector<int64_t> labelled_;
  std::vector<int64_t> predicted_;
  std::vector<int64_t> hits_;
};

/// -log softmax(logits)[label], in double.
[[nodiscard]] double row_loss(std::span<const float> logits, int32_t label);
[[nodiscard]] int32_t argmax(std::span<const float> logits);

}  // namespace snug::train
