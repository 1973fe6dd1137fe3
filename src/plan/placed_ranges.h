// SPDX-License-Identifier: Apache-2.0
// What greedy placement has placed, found by time and sorted by offset, so that one pass over a
// list sees the gaps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plan/sections.h"

namespace snug::plan::internal {

struct PlacedRange {
  int64_t offset;
  int64_t end;
  int32_t first;
  int32_t last;
};

/// Windows over the sections, each half covered by the next, at several lengths: an interval of at
/// most half a window lies in one of them, and most ranges live within a short one. A range is
/// listed in every window that it touches; a list is sorted when it is asked for.
class PlacedRanges {
 public:
  explicit PlacedRanges(int32_t sections) {
    int32_t half = std::max(kShortestHalf, sections / kMostWindows);
    while (true) {
      levels_.push_back({half, std::vector<Window>(static_cast<size_t>(sections / half) + 1)});
      if (half >= sections) break;
      half *= kRatio;
    }
  }

  void add(const PlacedRange& placed, Sections::Interval interval) {
    for (Level& level : levels_) {
      const int32_t last = (interval.end - 1) / level.half;
      for (int32_t i = std::max(0, interval.begin / level.half - 1); i <= last; ++i)
        level.windows[static_cast<size_t>(i)].ranges.push_back(placed);
    }
  }

  /// All that can be live within the interval, and more, by rising offset.
  [[nodiscard]] std::span<const PlacedRange> near(Sections::Interval interval) {
    size_t i = 0;
    while (interval.end - interval.begin > levels_[i].half) ++i;
    Window& window = levels_[i].windows[static_cast<size_t>(interval.begin / levels_[i].half)];
    const auto is_lower = [](const PlacedRange& a, const PlacedRange& b) {
      return std::pair(a.offset, a.end) < std::pair(b.offset, b.end);
    };
    const auto begin = window.ranges.begin();
    const auto end = window.ranges.end();
    const auto unsorted = begin + static_cast<std::ptrdiff_t>(window.sorted);
    if (end - unsorted <= kFewNew) {
      for (auto next = unsorted; next != end; ++next)
        std::rotate(std::upper_bound(begin, next, *next, is_lower), next, next + 1);
    } else {
      std::sort(unsorted, end, is_lower);
      std::inplace_merge(begin, unsorted, end, is_lower);
    }
    window.sorted = window.ranges.size();
    return window.ranges;
  }

 private:
  static constexpr int32_t kShortestHalf = 32;  // sections
  static constexpr int32_t kMostWindows = 256;
  static constexpr int32_t kRatio = 4;
  static constexpr std::ptrdiff_t kFewNew = 4;  // cheaper to insert than to merge

  struct Window {
    std::vector<PlacedRange> ranges;
    size_t sorted = 0;  // so many of them, from the front, are in order
  };
  struct Level {
    int32_t half;
    std::vector<Window> windows;  // window i covers the sections [i · half, (i + 2) · half)
  };
  std::vector<Level> levels_;  // shortest windows first
};

}  // namespace snug::plan::internal
