// SPDX-License-Identifier: Apache-2.0
// A set of rows in one bit each, whose members and the others are found by their places.
#pragma once

#include <cstdint>
#include <vector>

#include "base/index_vector.h"

namespace snug::data {

class RowMarks {
 public:
  explicit RowMarks(int64_t rows);
  void mark(int64_t row);
  /// After the last mark, before the first question.
  void finish();

  [[nodiscard]] int64_t marked() const { return marked_; }
  /// The k-th row, from 0, of those that are marked, or of those that are not.
  [[nodiscard]] int64_t find(int64_t k, bool is_marked) const;
  /// Heap bytes of so many rows.
  [[nodiscard]] static int64_t bytes(int64_t rows);

 private:
  int64_t rows_;
  int64_t marked_ = 0;
  IndexVector<uint64_t> words_;
  IndexVector<int64_t> marked_before_;  // of every block of words
};

}  // namespace snug::data
