// SPDX-License-Identifier: Apache-2.0
// Which pairs of ids merge, with their rank: an open-addressing hash.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/bpe_model.h"

namespace snug::text {

class MergeTable {
 public:
  struct Found {
    uint32_t rank = 0;
    int32_t id = -1;  // -1: the pair does not merge
  };

  explicit MergeTable(std::span<const BpeMerge> merges) {
    size_t slots = 16;
    while (slots < 2 * merges.size()) slots *= 2;
    slots_.resize(slots);
    uint32_t rank = 0;
    for (const BpeMerge& merge : merges) {
      Slot& slot = slots_[place(key_of(merge.left, merge.right))];
      slot = {key_of(merge.left, merge.right), rank++, merge.id};
    }
  }
  [[nodiscard]] Found find(int32_t left, int32_t right) const {
    const Slot& slot = slots_[place(key_of(left, right))];
    return {slot.rank, slot.id};
  }
  [[nodiscard]] int64_t heap_bytes() const {
    return static_cast<int64_t>(slots_.capacity() * sizeof(Slot));
  }

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t rank = 0;
    int32_t id = -1;
  };
  [[nodiscard]] static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  /// Where the key stands, or would.
  [[nodiscard]] size_t place(uint64_t key) const {
    const uint64_t hash = key * 0x9E3779B97F4A7C15u;
    size_t at = static_cast<size_t>(hash ^ hash >> 32) & (slots_.size() - 1);
    while (slots_[at].id >= 0 && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  std::vector<Slot> slots_;
};

}  // namespace snug::text
