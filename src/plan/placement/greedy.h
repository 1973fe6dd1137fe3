// SPDX-License-Identifier: Apache-2.0
// Greedy placement: ranges in some order, each into a gap between those already placed that are
// live with it. What the portfolio, the local search and the placement around a core share.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/index_vector.h"
#include "plan/placement/placed_ranges.h"
#include "plan/placement/placement.h"
#include "plan/placement/range_max.h"
#include "plan/placement/sections.h"

namespace snug::plan::internal {

/// The smallest gap that is large enough; the lowest; or the end of a gap whose neighbours, the
/// bottom and the limit among them, lie beside the range for the longest time. Touching leaves the
/// middle free, which ranges that hand over to one another in turns need.
enum class Fit : uint8_t { best, first, touching };

/// Orders, highest first. Contention is the sum over the range's steps of all bytes live there,
/// peak the largest of them; of equal peaks the largest range goes first.
enum class Key : uint8_t { bytes, area, lifetime, contention, peak, death, birth };
[[nodiscard]] std::vector<int32_t> greedy_order(IndexSpan<const LiveRange> ranges, Key key);

/// The portfolio, what succeeds most often first.
struct GreedyRun {
  Key key;
  Fit fit;
};
inline constexpr std::array kGreedyRuns = {
    GreedyRun{Key::bytes, Fit::first},     GreedyRun{Key::lifetime, Fit::touching},
    GreedyRun{Key::bytes, Fit::best},      GreedyRun{Key::death, Fit::best},
    GreedyRun{Key::area, Fit::best},       GreedyRun{Key::area, Fit::touching},
    GreedyRun{Key::contention, Fit::best}, GreedyRun{Key::area, Fit::first},
    GreedyRun{Key::lifetime, Fit::best},   GreedyRun{Key::contention, Fit::touching},
    GreedyRun{Key::lifetime, Fit::first},  GreedyRun{Key::contention, Fit::first},
    GreedyRun{Key::birth, Fit::best},      GreedyRun{Key::death, Fit::first},
    GreedyRun{Key::birth, Fit::first}};

/// A placement in the making. Copies are independent.
class GreedyPlacement {
 public:
  /// Both must outlive it.
  GreedyPlacement(IndexSpan<const LiveRange> ranges, const Sections& sections);

  /// Puts the range where the caller knows it to be free.
  void put(int32_t id, int64_t offset);
  /// Puts the range into a gap; false where it would end above `limit`, and then nothing changes.
  /// Touching looks at gaps below the limit only, so the limit is to be the goal.
  [[nodiscard]] bool place(int32_t id, Fit fit, int64_t limit);
  /// place() for all of them, up to the first that fails.
  [[nodiscard]] bool place(std::span<const int32_t> ids, Fit fit, int64_t limit);

  [[nodiscard]] const Placement& placement() const { return placement_; }
  /// Ranges and chunks that searches for the first or the smallest gap have looked at.
  [[nodiscard]] int64_t looks() const { return looks_; }

 private:
  [[nodiscard]] std::optional<int64_t> gap_for(int32_t id, Fit fit);
  [[nodiscard]] std::optional<int64_t> touching_gap_for(int32_t id, int64_t limit);

  IndexSpan<const LiveRange> ranges_;
  const Sections* sections_;
  Placement placement_;
  PlacedRanges placed_;
  int64_t looks_ = 0;
  RangeMax<Add> used_;   // per section: bytes
  RangeMax<Raise> top_;  // per section: highest byte
};

/// Completes `begun`, where the ranges of `is_placed` lie, in each of `runs` until `best` is not
/// higher than `enough`; keeps what is lower than `best`.
void place_rest(IndexSpan<const LiveRange> ranges, std::span<const GreedyRun> runs,
                const GreedyPlacement& begun, const IndexVector<bool>& is_placed, int64_t enough,
                Placement& best);

}  // namespace snug::plan::internal
