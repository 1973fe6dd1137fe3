// SPDX-License-Identifier: Apache-2.0
// Counts words in bounded memory. When the table is full, its rarer half goes: which words these
// are depends on the counts, the seed and the order of the text only.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/index_vector.h"
#include "text/token_table.h"

namespace snug::text {

class WordCounts {
 public:
  WordCounts(int64_t max_words, int64_t max_bytes, uint64_t seed)
      : max_words_(max_words), max_bytes_(max_bytes), seed_(seed) {}

  void add(std::string_view word);
  /// Halves every count; an odd one is rounded up or down by a bit of the word's hash, and what
  /// reaches 0 goes.
  void halve();
  [[nodiscard]] int64_t size() const { return words_.size(); }
  [[nodiscard]] std::string_view word(int64_t i) const { return words_.token(i); }
  [[nodiscard]] int64_t count(int64_t i) const { return counts_[i]; }
  /// Indices of the words, most frequent first; equally frequent ones in an order drawn by the
  /// seed.
  [[nodiscard]] std::vector<int32_t> by_count() const;

 private:
  void keep(const std::vector<int32_t>& ascending);

  TokenTable words_;
  IndexVector<int64_t> counts_;
  int64_t bytes_ = 0;
  int64_t max_words_, max_bytes_;
  uint64_t seed_;
};

}  // namespace snug::text
