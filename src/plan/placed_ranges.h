// SPDX-License-Identifier: Apache-2.0
// What greedy placement has placed, found by time and sorted by offset, so that one pass over a
// list sees the gaps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
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

/// Some ranges of a list, one behind the other, with what a search for a gap has to know of them to
/// pass them.
class PlacedChunk {
 public:
  PlacedChunk(const PlacedRange* begin, const PlacedRange* end) : ranges_(begin, end) {}

  [[nodiscard]] const std::vector<PlacedRange>& ranges() const { return ranges_; }

  void insert(size_t at, const PlacedRange& placed) {
    ranges_.insert(ranges_.begin() + static_cast<std::ptrdiff_t>(at), placed);
    is_summed_ = false;
  }
  /// Gives the second half away.
  [[nodiscard]] PlacedChunk split() {
    const size_t half = ranges_.size() / 2;
    PlacedChunk rest(ranges_.data() + half, ranges_.data() + ranges_.size());
    ranges_.resize(half);
    is_summed_ = false;
    return rest;
  }

  /// Those of the chunk that are live between two steps.
  struct Live {
    bool is_any = false;
    int64_t offset = 0;  // of the lowest
    int64_t end = 0;     // of the highest
    int64_t gap = 0;     // the largest between them, of those that none of them fills
  };
  /// A search asks for one range after the other, and what they meet here is mostly the same.
  [[nodiscard]] const Live& live_between(int32_t first, int32_t last) {
    const bool is_known = is_summed_ && last_dead_ < first && first <= first_death_ &&
                          last_birth_ <= last && last < first_unborn_;
    if (!is_known) sum_up(first, last);
    return live_;
  }

 private:
  void sum_up(int32_t first, int32_t last) {
    live_ = {};
    last_dead_ = last_birth_ = std::numeric_limits<int32_t>::min();
    first_death_ = first_unborn_ = std::numeric_limits<int32_t>::max();
    for (const PlacedRange& each : ranges_) {
      if (each.last < first) {
        last_dead_ = std::max(last_dead_, each.last);
        continue;
      }
      if (last < each.first) {
        first_unborn_ = std::min(first_unborn_, each.first);
        continue;
      }
      if (!live_.is_any) live_ = {true, each.offset, each.offset, 0};
      first_death_ = std::min(first_death_, each.last);
      last_birth_ = std::max(last_birth_, each.first);
      live_.gap = std::max(live_.gap, each.offset - live_.end);
      live_.end = std::max(live_.end, each.end);
    }
    is_summed_ = true;
  }

  std::vector<PlacedRange> ranges_;
  bool is_summed_ = false;
  Live live_;
  // The steps between which the sum holds: the last death of what was dead by then, ...
  int32_t last_dead_ = 0;
  int32_t first_death_ = 0;
  int32_t last_birth_ = 0;
  int32_t first_unborn_ = 0;
};

/// Ranges by rising offset, in chunks: what is new goes to its place without moving all behind it.
class PlacedList {
 public:
  void add(const PlacedRange& placed) { new_.push_back(placed); }

  /// In order, what was added last included. No chunk is empty.
  [[nodiscard]] std::vector<PlacedChunk>& chunks() {
    if (new_.size() > kFewNew + size_ / kChunk) {
      rebuild();
    } else {
      for (const PlacedRange& placed : new_) insert(placed);
    }
    size_ += new_.size();
    new_.clear();
    return chunks_;
  }

 private:
  static constexpr size_t kChunk = 64;  // ranges; twice that are split
  static constexpr size_t kFewNew = 4;  // cheaper to insert than to merge

  static bool is_lower(const PlacedRange& a, const PlacedRange& b) {
    return std::pair(a.offset, a.end) < std::pair(b.offset, b.end);
  }

  void insert(const PlacedRange& placed) {
    if (chunks_.empty()) {
      chunks_.emplace_back(&placed, &placed + 1);
      return;
    }
    auto chunk = std::upper_bound(
        chunks_.begin(), chunks_.end(), placed,
        [](const PlacedRange& a, const PlacedChunk& b) { return is_lower(a, b.ranges().front()); });
    if (chunk != chunks_.begin()) --chunk;
    const auto& ranges = chunk->ranges();
    const auto at = std::upper_bound(ranges.begin(), ranges.end(), placed, is_lower);
    chunk->insert(static_cast<size_t>(at - ranges.begin()), placed);
    if (ranges.size() < 2 * kChunk) return;
    PlacedChunk rest = chunk->split();
    chunks_.insert(chunk + 1, std::move(rest));
  }

  void rebuild() {
    std::vector<PlacedRange> all;
    all.reserve(size_ + new_.size());
    for (const PlacedChunk& chunk : chunks_)
      all.insert(all.end(), chunk.ranges().begin(), chunk.ranges().end());
    std::sort(new_.begin(), new_.end(), is_lower);
    const auto middle = static_cast<std::ptrdiff_t>(all.size());
    all.insert(all.end(), new_.begin(), new_.end());
    std::inplace_merge(all.begin(), all.begin() + middle, all.end(), is_lower);
    chunks_.clear();
    for (size_t begin = 0; begin < all.size(); begin += kChunk)
      chunks_.emplace_back(all.data() + begin, all.data() + std::min(all.size(), begin + kChunk));
  }

  std::vector<PlacedChunk> chunks_;
  std::vector<PlacedRange> new_;
  size_t size_ = 0;  // in chunks
};

/// Windows over the sections, each half covered by the next, at several lengths: an interval of at
/// most half a window lies in one of them, and most ranges live within a short one. A range is
/// listed in every window that it touches; a list is sorted when it is asked for.
class PlacedRanges {
 public:
  explicit PlacedRanges(int32_t sections) {
    int32_t half = std::max(kShortestHalf, sections / kMostWindows);
    while (true) {
      levels_.push_back({half, std::vector<PlacedList>(static_cast<size_t>(sections / half) + 1)});
      if (half >= sections) break;
      half *= kRatio;
    }
  }

  void add(const PlacedRange& placed, Sections::Interval interval) {
    for (Level& level : levels_) {
      const int32_t last = (interval.end - 1) / level.half;
      for (int32_t i = std::max(0, interval.begin / level.half - 1); i <= last; ++i)
        level.windows[static_cast<size_t>(i)].add(placed);
    }
  }

  /// All that can be live within the interval, and more, by rising offset.
  [[nodiscard]] std::vector<PlacedChunk>& near(Sections::Interval interval) {
    size_t i = 0;
    while (interval.end - interval.begin > levels_[i].half) ++i;
    return levels_[i].windows[static_cast<size_t>(interval.begin / levels_[i].half)].chunks();
  }

 private:
  static constexpr int32_t kShortestHalf = 32;  // sections
  static constexpr int32_t kMostWindows = 256;
  static constexpr int32_t kRatio = 4;

  struct Level {
    int32_t half;
    std::vector<PlacedList> windows;  // window i covers the sections [i · half, (i + 2) · half)
  };
  std::vector<Level> levels_;  // shortest windows first
};

}  // namespace snug::plan::internal
