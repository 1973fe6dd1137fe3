// SPDX-License-Identifier: Apache-2.0
#include "text/token_table.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace snug::text {

std::string_view TokenTable::token(int64_t id) const {
  SNUG_CHECK(id >= 0 && id < size(), "token id out of range");
  const auto i = static_cast<size_t>(id);
  const size_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(pool_).substr(begin, ends_[i] - begin);
}

int32_t TokenTable::find(uint64_t hash, std::string_view prefix, std::string_view rest) const {
  if (slots_.empty()) return -1;
  for (size_t slot = slot_of(hash); slots_[slot] >= 0; slot = (slot + 1) & (slots_.size() - 1)) {
    const auto i = static_cast<size_t>(slots_[slot]);
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    if (ends_[i] - begin != prefix.size() + rest.size()) continue;
    const std::string_view token(pool_.data() + begin, ends_[i] - begin);
    if (token.substr(prefix.size()) == rest && token.substr(0, prefix.size()) == prefix)
      return slots_[slot];
  }
  return -1;
}

size_t TokenTable::place_of(std::string_view wanted) const {
  size_t slot = slot_of(hash_more(kHashSeed, wanted));
  while (slots_[slot] >= 0 && token(slots_[slot]) != wanted)
    slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

bool TokenTable::add(std::string_view token) {
  if (find(token) >= 0) return false;
  append(token);
  return true;
}

void TokenTable::add_again(std::string_view token) {
  SNUG_CHECK(find(token) >= 0, "a token that is not there");
  append(token);
}

void TokenTable::append(std::string_view token) {
  SNUG_CHECK(pool_.size() + token.size() < std::numeric_limits<uint32_t>::max(),
             "vocabulary above 4 GiB");
  while (2 * (ends_.size() + 1) > slots_.size()) grow();
  slots_[place_of(token)] = static_cast<int32_t>(ends_.size());
  pool_.append(token);
  ends_.push_back(static_cast<uint32_t>(pool_.size()));
  longest_bytes_ = std::max(longest_bytes_, token.size());
}

void TokenTable::grow() {
  slots_ = std::vector<int32_t>(std::max<size_t>(64, 2 * slots_.size()), -1);
  for (int64_t id = 0; id < size(); ++id) {
    if (!token(id).empty()) slots_[place_of(token(id))] = static_cast<int32_t>(id);
  }
}

void TokenTable::shrink() {
  pool_.shrink_to_fit();
  ends_.shrink_to_fit();
}

int64_t TokenTable::heap_bytes() const {
  return static_cast<int64_t>(pool_.capacity() + 1 + ends_.capacity() * sizeof(uint32_t) +
                              slots_.capacity() * sizeof(int32_t));
}

}  // namespace snug::text
