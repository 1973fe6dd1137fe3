// SPDX-License-Identifier: Apache-2.0
// What was really written: bytes of a block that hold a pattern until something writes over them.
// Used for the arena's measure, for gaps where nothing may be written, and for the bytes around
// what a kernel writes. Knows neither graphs nor plans.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/block.h"

namespace snug::runtime {

/// As four bytes of a float: -2.9e-16, which no kernel is likely to leave behind by chance.
inline constexpr std::byte kCanary{0xA5};

void lay_canary(MemoryBlock& block, ByteRange range);
/// Where in the range the first byte is that is not `wanted`, counted from its begin; nothing where
/// all are.
[[nodiscard]] std::optional<int64_t> first_changed(const MemoryBlock& block, ByteRange range,
                                                   std::byte wanted = kCanary);
/// End of the last byte that was written over, counted from the range's begin; 0 where none was.
[[nodiscard]] int64_t written_end(const MemoryBlock& block, ByteRange range);

/// Remembers the bytes next to those that a kernel may write, whatever they hold: the neighbour's
/// values, dead bytes or a gap.
class Fence {
 public:
  static constexpr int64_t kWidth = 64;

  explicit Fence(const MemoryBlock& block) : block_(block) {}
  /// Takes what surrounds the ranges now.
  void put_up(std::span<const ByteRange> ranges);
  /// The place of the first byte beside the ranges of put_up that is another now; nothing where
  /// none is.
  [[nodiscard]] std::optional<int64_t> first_changed() const;

 private:
  using Bytes = std::array<std::byte, kWidth>;
  struct Strip {
    ByteRange place;  // at most kWidth bytes
    Bytes before = {};
  };
  void watch(ByteRange place);
  [[nodiscard]] bool may_change(int64_t place) const;

  const MemoryBlock& block_;
  std::span<const ByteRange> ranges_;
  std::vector<Strip> strips_;
};

}  // namespace snug::runtime
