// SPDX-License-Identifier: Apache-2.0
// Parts of a cache: all rows, or the seeded training and validation shares of them. A part is a few
// words, whatever the number of rows; which part a row is in depends on (rows, share, seed) and the
// row alone.
#pragma once

#include <cstdint>
#include <optional>

#include "data/permutation.h"

namespace snug::data {

/// An indexable set of row ids.
class Part {
 public:
  Part() = default;
  /// Every row, in file order.
  [[nodiscard]] static Part all(int64_t rows);

  [[nodiscard]] int64_t size() const { return size_; }
  /// The row id of member k, for k in [0, size).
  [[nodiscard]] int64_t row(int64_t k) const {
    return order_ ? order_->inverse(begin_ + k) : begin_ + k;
  }

 private:
  friend struct Split split_rows(int64_t rows, double validation_split, uint64_t seed);
  int64_t begin_ = 0;
  int64_t size_ = 0;
  std::optional<Permutation> order_;
};

struct Split {
  Part train;
  Part validation;
};

/// Holds out round(rows * validation_split) rows, at least one where the share is above 0 and never
/// all. Throws Error{bad_config} for a share outside [0, 1) and Error{bad_data} where there are too
/// few rows to split.
[[nodiscard]] Split split_rows(int64_t rows, double validation_split, uint64_t seed);

}  // namespace snug::data
