// SPDX-License-Identifier: Apache-2.0
// What greedy placement has placed, found by time and sorted by offset, so that one pass over a
// list sees the gaps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/index_vector.h"
#include "plan/placement/sections.h"

namespace snug::plan::internal {

struct PlacedRange {
  int64_t offset;
  int64_t end;
  int32_t first;
  int32_t last;
};

/// What a search for a gap has to know of some ranges of a list, one behind the other, to pass
/// them: those that are live between two steps. A search asks for one range after the other, and
/// what they meet here is mostly the same, so the answer is kept with the steps between which it
/// holds.
class LiveBetween {
 public:
  LiveBetween() = default;

  struct Live {
    bool is_any = false;
    int64_t offset = 0;    // of the lowest
    int64_t end = 0;       // of the highest
    int64_t gap = 0;       // at least the largest between them, of those that none of them fills
    int64_t gaps_end = 0;  // of the highest such gap
  };

  [[nodiscard]] bool holds(int32_t first, int32_t last) const {
    return is_summed_ && last_dead_ < first && first <= first_death_ && last_birth_ <= last &&
           last < first_unborn_;
  }
  [[nodiscard]] const Live& live() const { return live_; }

  void forget() { is_summed_ = false; }
  /// Begins with nothing. Ranges are added then, between the same two steps each time.
  void begin() { *this = LiveBetween(true); }
  void add(const PlacedRange& range, int32_t first, int32_t last) {
    if (range.last < first) {
      last_dead_ = std::max(last_dead_, range.last);
    } else if (last < range.first) {
      first_unborn_ = std::min(first_unborn_, range.first);
    } else {
      first_death_ = std::min(first_death_, range.last);
      last_birth_ = std::max(last_birth_, range.first);
      append({true, range.offset, range.end, 0, 0});
    }
  }
  void add(const LiveBetween& part) {
    last_dead_ = std::max(last_dead_, part.last_dead_);
    first_death_ = std::min(first_death_, part.first_death_);
    last_birth_ = std::max(last_birth_, part.last_birth_);
    first_unborn_ = std::min(first_unborn_, part.first_unborn_);
    if (part.live_.is_any) append(part.live_);
  }

 private:
  explicit LiveBetween(bool is_summed) : is_summed_(is_summed) {}
  void append(const Live& next) {
    if (!live_.is_any) live_ = {true, next.offset, next.offset, 0, 0};
    if (next.offset > live_.end) live_.gaps_end = next.offset;
    live_.gaps_end = std::max(live_.gaps_end, next.gaps_end);
    live_.gap = std::max({live_.gap, next.gap, next.offset - live_.end});
    live_.end = std::max(live_.end, next.end);
  }

  bool is_summed_ = false;
  Live live_;
  int32_t last_dead_ = std::numeric_limits<int32_t>::min();  // of what was dead by then
  int32_t first_death_ = std::numeric_limits<int32_t>::max();
  int32_t last_birth_ = std::numeric_limits<int32_t>::min();
  int32_t first_unborn_ = std::numeric_limits<int32_t>::max();
};

/// Some ranges of a list, one behind the other.
class PlacedChunk {
 public:
  PlacedChunk(const PlacedRange* begin, const PlacedRange* end) : ranges_(begin, end) {}

  [[nodiscard]] const IndexVector<PlacedRange>& ranges() const { return ranges_; }

  void insert(size_t at, const PlacedRange& placed) {
    ranges_.insert(ranges_.begin() + static_cast<std::ptrdiff_t>(at), placed);
    live_.forget();
  }
  /// Gives the second half away.
  [[nodiscard]] PlacedChunk split() {
    const size_t half = ranges_.size() / 2;
    PlacedChunk rest(ranges_.data() + half, ranges_.data() + ranges_.size());
    ranges_.resize(half);
    live_.forget();
    return rest;
  }

  [[nodiscard]] const LiveBetween& live_between(int32_t first, int32_t last) {
    if (!live_.holds(first, last)) {
      live_.begin();
      for (const PlacedRange& each : ranges_) live_.add(each, first, last);
    }
    return live_;
  }

 private:
  IndexVector<PlacedRange> ranges_;
  LiveBetween live_;
};

/// Ranges by rising offset, in chunks: what is new goes to its place without moving all behind it.
class PlacedList {
 public:
  static constexpr size_t kGroup = 16;  // chunks that a search may pass at once

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

  /// What is live in the chunks [group · kGroup, ...), which chunks() has put in order.
  [[nodiscard]] const LiveBetween& group_between(size_t group, int32_t first, int32_t last) {
    LiveBetween& live = groups_[group];
    if (!live.holds(first, last)) {
      live.begin();
      const size_t end = std::min(chunks_.size(), (group + 1) * kGroup);
      for (size_t i = group * kGroup; i < end; ++i) live.add(chunks_[i].live_between(first, last));
    }
    return live;
  }

 private:
  static constexpr size_t kChunk = 64;  // ranges; twice that are split
  static constexpr size_t kFewNew = 4;  // cheaper to insert than to merge

  static size_t groups_of(size_t chunks) { return (chunks + kGroup - 1) / kGroup; }
  // A type, so that sorting has it inline.
  struct IsLower {
    bool operator()(const PlacedRange& a, const PlacedRange& b) const {
      return a.offset != b.offset ? a.offset < b.offset : a.end < b.end;
    }
  };

  void insert(const PlacedRange& placed) {
    if (chunks_.empty()) {
      chunks_.emplace_back(&placed, &placed + 1);
      groups_.resize(1);
      return;
    }
    auto chunk = std::upper_bound(chunks_.begin(), chunks_.end(), placed,
                                  [](const PlacedRange& a, const PlacedChunk& b) {
                                    return IsLower{}(a, b.ranges().front());
                                  });
    if (chunk != chunks_.begin()) --chunk;
    const auto& ranges = chunk->ranges();
    const auto at = std::upper_bound(ranges.begin(), ranges.end(), placed, IsLower{});
    chunk->insert(static_cast<size_t>(at - ranges.begin()), placed);
    const auto group = static_cast<size_t>(chunk - chunks_.begin()) / kGroup;
    groups_[group].forget();
    if (ranges.size() < 2 * kChunk) return;
    for (size_t i = group + 1; i < groups_.size(); ++i) groups_[i].forget();  // they move on
    PlacedChunk rest = chunk->split();
    chunks_.insert(chunk + 1, std::move(rest));
    groups_.resize(groups_of(chunks_.size()));
  }

  void rebuild() {
    IndexVector<PlacedRange> all;
    all.reserve(size_ + new_.size());
    for (const PlacedChunk& chunk : chunks_)
      all.insert(all.end(), chunk.ranges().begin(), chunk.ranges().end());
    std::sort(new_.begin(), new_.end(), IsLower{});
    const auto middle = static_cast<std::ptrdiff_t>(all.size());
    all.insert(all.end(), new_.begin(), new_.end());
    std::inplace_merge(all.begin(), all.begin() + middle, all.end(), IsLower{});
    chunks_.clear();
    for (size_t begin = 0; begin < all.size(); begin += kChunk)
      chunks_.emplace_back(all.data() + begin, all.data() + std::min(all.size(), begin + kChunk));
    groups_.assign(groups_of(chunks_.size()), {});
  }

  std::vector<PlacedChunk> chunks_;
  std::vector<LiveBetween> groups_;
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
        level.windows[i].add(placed);
    }
  }

  /// All that can be live within the interval, and more, by rising offset.
  [[nodiscard]] PlacedList& near(Sections::Interval interval) {
    size_t i = 0;
    while (interval.end - interval.begin > levels_[i].half) ++i;
    return levels_[i].windows[interval.begin / levels_[i].half];
  }

 private:
  static constexpr int32_t kShortestHalf = 32;  // sections
  static constexpr int32_t kMostWindows = 32;   // of a level; long ranges are listed in most
  static constexpr int32_t kRatio = 4;

  struct Level {
    int32_t half;
    IndexVector<PlacedList> windows;  // window i covers the sections [i · half, (i + 2) · half)
  };
  std::vector<Level> levels_;  // shortest windows first
};

}  // namespace snug::plan::internal
