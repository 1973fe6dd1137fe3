// SPDX-License-Identifier: Apache-2.0
// What was really written: bytes that hold a pattern until something writes over them. Used for the
// arena's measure, for gaps where nothing may be written, and for the bytes around what a kernel
// writes. Knows neither graphs nor plans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace snug {

/// As four bytes of a float: -2.9e-16, which no kernel is likely to leave behind by chance.
inline constexpr std::byte kCanary{0xA5};

void lay_canary(std::span<std::byte> bytes);
/// Position of the first byte that is not `wanted`; nothing where all are.
[[nodiscard]] std::optional<int64_t> first_changed(std::span<const std::byte> bytes,
                                                   std::byte wanted = kCanary);
/// End of the last byte that was written over; 0 where none was.
[[nodiscard]] int64_t written_end(std::span<const std::byte> bytes);

/// Remembers the bytes next to those that a kernel may write, whatever they hold: the neighbour's
/// values, dead bytes or a gap.
class Fence {
 public:
  using Range = std::pair<const std::byte*, const std::byte*>;
  static constexpr int64_t kWidth = 64;

  explicit Fence(Range memory) : memory_(memory) {}
  /// Takes what surrounds the ranges now.
  void put_up(std::span<const Range> ranges);
  /// The first byte beside the ranges of put_up that is another now; null where none is.
  [[nodiscard]] const std::byte* first_changed() const;

 private:
  void watch(const std::byte* begin, const std::byte* end, std::span<const Range> ranges);

  Range memory_;
  std::vector<std::pair<const std::byte*, std::byte>> watched_;
};

}  // namespace snug
