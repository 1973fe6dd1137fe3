// SPDX-License-Identifier: Apache-2.0
// The merges of a vocabulary that is being learned: pairs of ids in the order of their ranks.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/bpe_model.h"

namespace snug::text {

class GrowingMerges {
 public:
  void add(const BpeMerge& merge) {
    ranks_.emplace(key_of(merge.left, merge.right), static_cast<uint32_t>(merges_.size()));
    merges_.push_back(merge);
  }
  /// Merges a short word as BPE does: the lowest rank first, of equal ones the leftmost.
  void apply(std::vector<int32_t>& ids) const {
    while (true) {
      size_t best = 0;
      uint32_t least = UINT32_MAX;
      for (size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto found = ranks_.find(key_of(ids[i], ids[i + 1]));
        if (found == ranks_.end() || found->second >= least) continue;
        best = i;
        least = found->second;
      }
      if (least == UINT32_MAX) return;
      ids[best] = merges_[least].id;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
  }
  [[nodiscard]] std::vector<BpeMerge> take() { return std::move(merges_); }

 private:
  [[nodiscard]] static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  std::unordered_map<uint64_t, uint32_t> ranks_;
  std::vector<BpeMerge> merges_;
};

}  // namespace snug::text
