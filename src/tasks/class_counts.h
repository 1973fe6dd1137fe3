// SPDX-License-Identifier: Apache-2.0
// How often each label was wanted, found and both; what F1 and its means follow from. Never a table
// of labels x labels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/index_vector.h"
#include "snug/run.h"

namespace snug::tasks {

inline constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

/// 0 where the whole is 0: a precision or recall of nothing, as scikit-learn has them.
[[nodiscard]] inline double ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}
/// Not defined where the whole is 0: a mean over no rows.
[[nodiscard]] inline double mean_of(double sum, int64_t rows) {
  return rows == 0 ? kUndefined : sum / static_cast<double>(rows);
}

struct ClassCounts {
  explicit ClassCounts(size_t labels) : wanted(labels), found(labels), hits(labels) {}

  IndexVector<int64_t> wanted;
  IndexVector<int64_t> found;
  IndexVector<int64_t> hits;

  [[nodiscard]] double f1(size_t label) const {
    return ratio(2 * hits[label], wanted[label] + found[label]);
  }
  /// By the rows of each label; 0 where no row has any.
  [[nodiscard]] double weighted_f1() const {
    double sum = 0;
    int64_t all = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      sum += f1(i) * static_cast<double>(wanted[i]);
      all += wanted[i];
    }
    return sum / static_cast<double>(std::max<int64_t>(all, 1));
  }
  [[nodiscard]] ClassScore score(size_t label, const std::string& name) const {
    return {.label = name,
            .rows = wanted[label],
            .precision = ratio(hits[label], found[label]),
            .recall = ratio(hits[label], wanted[label]),
            .f1 = f1(label)};
  }
};

}  // namespace snug::tasks
