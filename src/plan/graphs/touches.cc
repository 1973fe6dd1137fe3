// SPDX-License-Identifier: Apache-2.0
#include "plan/graphs/touches.h"

#include <algorithm>
#include <bit>

namespace snug::plan {

Touches::Touches(const StageGraph& graph) : all_words_(graph.op_count / 64 + 1) {
  Row row;
  for (const ArenaId id : graph.bytes.ids()) {
    row.first_word = graph.producer[id] / 64;
    rows_.push_back(row);
    row.begin += words_of(row);
    row.begin_any += (words_of(row) + 63) / 64;
  }
  words_.assign(row.begin, 0);
  any_.assign(row.begin_any, 0);
}

void Touches::clear() {
  std::fill(words_.begin(), words_.end(), 0);
  std::fill(any_.begin(), any_.end(), 0);
}

void Touches::add(ArenaId storage, int32_t stage) {
  const Row& row = rows_[storage];
  const int32_t word = stage / 64 - row.first_word;
  words_[row.begin + word] |= uint64_t{1} << (stage % 64);
  any_[row.begin_any + word / 64] |= uint64_t{1} << (word % 64);
}

void Touches::remove(ArenaId storage, int32_t stage) {
  const Row& row = rows_[storage];
  const int32_t word = stage / 64 - row.first_word;
  uint64_t& bits = words_[row.begin + word];
  bits &= ~(uint64_t{1} << (stage % 64));
  if (bits == 0) any_[row.begin_any + word / 64] &= ~(uint64_t{1} << (word % 64));
}

int32_t Touches::first_from(ArenaId storage, int32_t stage) const {
  const Row& row = rows_[storage];
  const int32_t words = words_of(row);
  int32_t word = stage / 64 - row.first_word;
  if (word >= words) return kNoneBehind;
  if (word >= 0) {
    const uint64_t left = words_[row.begin + word] >> (stage % 64);
    if (left != 0) return stage + std::countr_zero(left);
  }
  word = std::max(word, -1) + 1;
  for (; word < words; word = (word / 64 + 1) * 64) {
    const uint64_t left = any_[row.begin_any + word / 64] >> (word % 64);
    if (left == 0) continue;
    word += std::countr_zero(left);
    return (row.first_word + word) * 64 + std::countr_zero(words_[row.begin + word]);
  }
  return kNoneBehind;
}

int32_t Touches::last_before(ArenaId storage, int32_t stage) const {
  const Row& row = rows_[storage];
  const int32_t at = stage - 1;
  int32_t word = stage > 0 ? at / 64 - row.first_word : -1;
  if (word < 0) return kNoneBefore;
  const uint64_t left = words_[row.begin + word] << (63 - at % 64);
  if (left != 0) return at - std::countl_zero(left);
  for (--word; word >= 0; word = word / 64 * 64 - 1) {
    const uint64_t any = any_[row.begin_any + word / 64] << (63 - word % 64);
    if (any == 0) continue;
    word -= std::countl_zero(any);
    return (row.first_word + word) * 64 + 63 - std::countl_zero(words_[row.begin + word]);
  }
  return kNoneBefore;
}

int32_t Touches::count(ArenaId storage) const {
  const Row& row = rows_[storage];
  int32_t sum = 0;
  for (int32_t word = 0; word < words_of(row); ++word)
    sum += std::popcount(words_[row.begin + word]);
  return sum;
}

int32_t Touches::nth(ArenaId storage, int32_t before) const {
  const Row& row = rows_[storage];
  for (int32_t word = 0; word < words_of(row); ++word) {
    uint64_t bits = words_[row.begin + word];
    const int32_t here = std::popcount(bits);
    if (before < here) {
      for (; before > 0; --before) bits &= bits - 1;
      return (row.first_word + word) * 64 + std::countr_zero(bits);
    }
    before -= here;
  }
  return kNoneBehind;
}

}  // namespace snug::plan
