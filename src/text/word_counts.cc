// SPDX-License-Identifier: Apache-2.0
#include "text/word_counts.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/mix_bits.h"

namespace snug::text {

void WordCounts::add(std::string_view word) {
  const int32_t known = words_.find(word);
  if (known >= 0) {
    ++counts_[known];
    return;
  }
  if (size() >= max_words_ || bytes_ + static_cast<int64_t>(word.size()) > max_bytes_) {
    std::vector<int32_t> kept = by_count();
    kept.resize(kept.size() / 2);
    std::sort(kept.begin(), kept.end());
    keep(kept);
  }
  const bool is_new = words_.add(word);
  SNUG_CHECK(is_new, "a word was not found and yet is there");
  counts_.push_back(1);
  bytes_ += static_cast<int64_t>(word.size());
}

void WordCounts::halve() {
  std::vector<int32_t> kept;
  for (int64_t i = 0; i < size(); ++i) {
    const uint64_t bit =
        mix_bits(seed_ ^ TokenTable::hash_more(TokenTable::kHashSeed, word(i))) & 1u;
    int64_t& count = counts_[i];
    count = (count + static_cast<int64_t>(bit)) / 2;
    if (count > 0) kept.push_back(static_cast<int32_t>(i));
  }
  keep(kept);
}

std::vector<int32_t> WordCounts::by_count() const {
  std::vector<std::pair<uint64_t, int32_t>> order;
  order.reserve(static_cast<size_t>(size()));
  for (int64_t i = 0; i < size(); ++i) {
    order.emplace_back(mix_bits(seed_ ^ TokenTable::hash_more(TokenTable::kHashSeed, word(i))),
                       static_cast<int32_t>(i));
  }
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    const int64_t count_a = count(a.second);
    const int64_t count_b = count(b.second);
    return count_a != count_b ? count_a > count_b : a < b;
  });
  std::vector<int32_t> indices;
  indices.reserve(order.size());
  for (const auto& [hash, i] : order) indices.push_back(i);
  return indices;
}

void WordCounts::keep(const std::vector<int32_t>& ascending) {
  TokenTable words;
  std::vector<int64_t> counts;
  bytes_ = 0;
  for (int32_t i : ascending) {
    const bool is_new = words.add(word(i));
    SNUG_CHECK(is_new, "a word is in the table twice");
    counts.push_back(count(i));
    bytes_ += static_cast<int64_t>(word(i).size());
  }
  words_ = std::move(words);
  counts_ = std::move(counts);
}

}  // namespace snug::text
