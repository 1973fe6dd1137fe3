// SPDX-License-Identifier: Apache-2.0
// Greedy placement: ranges in some order, each into a gap between those already placed that are
// live with it. What the portfolio, the local search and the placement around a core share.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/placed_ranges.h"
#include "plan/placement.h"
#include "plan/range_max.h"
#include "plan/sections.h"

namespace snug::plan::internal {

enum class Fit : uint8_t { best, first };

/// Orders, highest first. Contention is the sum over the range's steps of all bytes live there.
enum class Key : uint8_t { bytes, area, lifetime, contention, death, birth };
inline constexpr std::array kKeys = {Key::bytes,      Key::area,  Key::lifetime,
                                     Key::contention, Key::death, Key::birth};
inline constexpr std::array kFits = {Fit::best, Fit::first};
[[nodiscard]] std::vector<int32_t> greedy_order(std::span<const LiveRange> ranges, Key key);

/// A placement in the making. Copies are independent.
class GreedyPlacement {
 public:
  /// Both must outlive it.
  GreedyPlacement(std::span<const LiveRange> ranges, const Sections& sections);

  /// Puts the range where the caller knows it to be free.
  void put(int32_t id, int64_t offset);
  /// Puts the range into a gap; false where it would end above `limit`, and then nothing changes.
  [[nodiscard]] bool place(int32_t id, Fit fit, int64_t limit);
  /// place() for all of them, up to the first that fails.
  [[nodiscard]] bool place(std::span<const int32_t> ids, Fit fit, int64_t limit);

  [[nodiscard]] const Placement& placement() const { return placement_; }

 private:
  [[nodiscard]] std::optional<int64_t> gap_for(int32_t id, Fit fit);

  std::span<const LiveRange> ranges_;
  const Sections* sections_;
  Placement placement_;
  PlacedRanges placed_;
  RangeMax<Add> used_;   // per section: bytes
  RangeMax<Raise> top_;  // per section: highest byte
};

}  // namespace snug::plan::internal
