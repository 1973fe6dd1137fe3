// SPDX-License-Identifier: Apache-2.0
// Parts of a cache: all rows, or the seeded training and validation shares of them. A part is a few
// words, whatever the number of rows; which part a row is in depends on (rows, share, seed) and the
// row alone. Only shares that hold out rows of every label in proportion keep a bit for each row
// (RowMarks): where a row goes then depends on its label, too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "data/permutation.h"
#include "data/row_marks.h"

namespace snug::data {

/// An indexable set of row ids.
class Subset {
 public:
  Subset() = default;
  /// Every row, in file order.
  [[nodiscard]] static Subset all(int64_t rows);

  [[nodiscard]] int64_t size() const { return size_; }
  /// The row id of member k, for k in [0, size).
  [[nodiscard]] int64_t row(int64_t k) const {
    if (marks_) return marks_->find(k, is_marked_);
    return order_ ? order_->inverse(begin_ + k) : begin_ + k;
  }
  /// Puts the row id of each in its place.
  void rows(std::span<int64_t> members) const;

 private:
  friend struct Split split_rows(int64_t rows, double validation_split, uint64_t seed);
  friend struct Split split_by_label(int64_t rows,
                                     const std::function<int32_t(int64_t row)>& label_of,
                                     double validation_split, uint64_t seed);
  int64_t begin_ = 0;
  int64_t size_ = 0;
  std::optional<Permutation> order_;
  std::shared_ptr<const RowMarks> marks_;  // the rows that are held out
  bool is_marked_ = false;                 // this part is those
};

struct Split {
  Subset train;
  Subset validation;
};

/// Holds out round(rows * validation_split) rows, at least one where the share is above 0 and never
/// all. Throws Error{bad_config} for a share outside [0, 1) and Error{bad_data} where there are too
/// few rows to split.
[[nodiscard]] Split split_rows(int64_t rows, double validation_split, uint64_t seed);

/// As many rows, of every label in proportion to its rows (the largest remainders are rounded up);
/// every label keeps a row to train on, so fewer are held out where many labels have one row. Asks
/// for the label of every row twice, in their order. Throws as split_rows does, and
/// Error{bad_data} where every label has one row only.
[[nodiscard]] Split split_by_label(int64_t rows,
                                   const std::function<int32_t(int64_t row)>& label_of,
                                   double validation_split, uint64_t seed);

}  // namespace snug::data
