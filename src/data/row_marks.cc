// SPDX-License-Identifier: Apache-2.0
#include "data/row_marks.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace snug::data {
namespace {

constexpr int64_t kBitsPerWord = 64;
constexpr int64_t kWordsPerBlock = 8;
constexpr int64_t kRowsPerBlock = kBitsPerWord * kWordsPerBlock;

int64_t words_of(int64_t rows) { return (rows + kBitsPerWord - 1) / kBitsPerWord; }

int64_t blocks_of(int64_t rows) { return (rows + kRowsPerBlock - 1) / kRowsPerBlock; }

}  // namespace

RowMarks::RowMarks(int64_t rows)
    : rows_(rows), words_(words_of(rows)), marked_before_(blocks_of(rows)) {}

void RowMarks::mark(int64_t row) {
  SNUG_CHECK(row >= 0 && row < rows_, "row out of range");
  words_[row / kBitsPerWord] |= uint64_t{1} << (row % kBitsPerWord);
}

void RowMarks::finish() {
  marked_ = 0;
  for (int64_t word = 0; word < words_of(rows_); ++word) {
    if (word % kWordsPerBlock == 0) marked_before_[word / kWordsPerBlock] = marked_;
    marked_ += std::popcount(words_[word]);
  }
}

int64_t RowMarks::find(int64_t k, bool is_marked) const {
  SNUG_CHECK(k >= 0 && k < (is_marked ? marked_ : rows_ - marked_), "place out of range");
  const auto before = [&](int64_t block) {
    return is_marked ? marked_before_[block] : block * kRowsPerBlock - marked_before_[block];
  };
  int64_t low = 0;  // the last block that begins at the place or before it
  for (int64_t high = blocks_of(rows_); high - low > 1;) {
    const int64_t middle = low + (high - low) / 2;
    (before(middle) <= k ? low : high) = middle;
  }
  k -= before(low);
  for (int64_t word = low * kWordsPerBlock;; ++word) {
    uint64_t bits = is_marked ? words_[word] : ~words_[word];
    const int64_t count = std::popcount(bits);
    if (k >= count) {
      k -= count;
      continue;
    }
    for (; k > 0; --k) bits &= bits - 1;
    return word * kBitsPerWord + std::countr_zero(bits);
  }
}

int64_t RowMarks::bytes(int64_t rows) {
  return words_of(rows) * static_cast<int64_t>(sizeof(uint64_t)) +
         blocks_of(rows) * static_cast<int64_t>(sizeof(int64_t));
}

}  // namespace snug::data
