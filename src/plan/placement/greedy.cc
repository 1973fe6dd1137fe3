// SPDX-License-Identifier: Apache-2.0
#include "plan/placement/greedy.h"
#include "base/index_vector.h"
#include "base/stop.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace snug::plan::internal {
namespace {

constexpr size_t kFewChunks = 2;  // of a list; looking at each range costs no more

// By step.
std::vector<double> live_bytes(IndexSpan<const LiveRange> ranges) {
  int32_t steps = 0;
  for (const LiveRange& range : ranges) steps = std::max(steps, range.last + 1);
  IndexVector<double> bytes(static_cast<size_t>(steps) + 1, 0.0);
  for (const LiveRange& range : ranges) {
    bytes[range.first] += static_cast<double>(range.bytes);
    bytes[range.last + 1] -= static_cast<double>(range.bytes);
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  return bytes;
}

// The sum over the range's steps of all bytes that are live there.
std::vector<double> contention(IndexSpan<const LiveRange> ranges) {
  IndexVector<double> sums = {0};
  for (const double bytes : live_bytes(ranges)) sums.push_back(sums.back() + bytes);
  std::vector<double> values;
  for (const LiveRange& range : ranges) {
    values.push_back(sums[range.last + 1] - sums[range.first]);
  }
  return values;
}

// The most bytes that are live at one of the range's steps.
std::vector<double> peaks(IndexSpan<const LiveRange> ranges) {
  const IndexVector<double> bytes = live_bytes(ranges);
  RangeMax<Raise> highest(static_cast<int32_t>(bytes.size()));
  for (size_t i = 0; i < bytes.size(); ++i)
    highest.update(static_cast<int32_t>(i), static_cast<int32_t>(i) + 1,
                   static_cast<int64_t>(bytes[i]));
  std::vector<double> values;
  for (const LiveRange& range : ranges)
    values.push_back(static_cast<double>(highest.max(range.first, range.last + 1)));
  return values;
}

std::vector<double> key_values(IndexSpan<const LiveRange> ranges, Key key) {
  if (key == Key::contention) return contention(ranges);
  if (key == Key::peak) return peaks(ranges);
  std::vector<double> values;
  for (const LiveRange& range : ranges) {
    const double lifetime = range.last - range.first + 1;
    switch (key) {
      case Key::bytes:
        values.push_back(static_cast<double>(range.bytes));
        break;
      case Key::area:
        values.push_back(static_cast<double>(range.bytes) * lifetime);
        break;
      case Key::lifetime:
        values.push_back(lifetime);
        break;
      case Key::birth:
        values.push_back(-range.first);
        break;
      default:
        values.push_back(range.last);
        break;
    }
  }
  return values;
}

}  // namespace

std::vector<int32_t> greedy_order(IndexSpan<const LiveRange> ranges, Key key) {
  stop_point();
  const std::vector<double> values = key_values(ranges, key);
  std::vector<int32_t> order(ranges.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const auto i = static_cast<size_t>(a);
    const auto j = static_cast<size_t>(b);
    if (key == Key::peak && values[i] == values[j]) return ranges[i].bytes > ranges[j].bytes;
    return values[i] > values[j];
  });
  return order;
}

void place_rest(IndexSpan<const LiveRange> ranges, std::span<const GreedyRun> runs,
                const GreedyPlacement& begun, const IndexVector<bool>& is_placed, int64_t enough,
                Placement& best) {
  for (const auto [key, fit] : runs) {
    if (!best.offsets.empty() && best.height <= enough) return;
    std::vector<int32_t> rest = greedy_order(ranges, key);
    std::erase_if(rest, [&](int32_t id) { return is_placed[id]; });
    GreedyPlacement greedy = begun;
    const int64_t lower = best.offsets.empty() ? kNoHeight : best.height - 1;
    if (greedy.place(rest, fit, fit == Fit::touching ? enough : lower)) best = greedy.placement();
  }
}

GreedyPlacement::GreedyPlacement(IndexSpan<const LiveRange> ranges, const Sections& sections)
    : ranges_(ranges),
      sections_(&sections),
      placed_(sections.count),
      used_(sections.count),
      top_(sections.count) {
  placement_.offsets.assign(ranges.size(), 0);
}

void GreedyPlacement::put(int32_t id, int64_t offset) {
  const LiveRange& range = ranges_[id];
  const int64_t end = offset + range.bytes;
  placement_.offsets[id] = offset;
  placement_.height = std::max(placement_.height, end);
  if (range.bytes == 0) return;
  const Sections::Interval interval = sections_->of_range[id];
  used_.update(interval.begin, interval.end, range.bytes);
  top_.update(interval.begin, interval.end, end);
  placed_.add({offset, end, range.first, range.last}, interval);
}

bool GreedyPlacement::place(int32_t id, Fit fit, int64_t limit) {
  stop_point();
  const int64_t bytes = ranges_[id].bytes;
  if (bytes == 0) return true;
  if (fit == Fit::touching) {
    const std::optional<int64_t> offset = touching_gap_for(id, limit);
    if (offset) put(id, *offset);
    return offset.has_value();
  }
  const Sections::Interval interval = sections_->of_range[id];
  // Below the highest neighbour there is room only if the fullest section has as many bytes free.
  const int64_t neighbours_top = top_.max(interval.begin, interval.end);
  int64_t offset = neighbours_top;
  if (neighbours_top - used_.max(interval.begin, interval.end) >= bytes) {
    offset = gap_for(id, fit).value_or(neighbours_top);
  }
  if (bytes > limit - offset) return false;
  put(id, offset);
  return true;
}

bool GreedyPlacement::place(std::span<const int32_t> ids, Fit fit, int64_t limit) {
  return std::all_of(ids.begin(), ids.end(), [&](int32_t id) { return place(id, fit, limit); });
}

// The first or the smallest gap that takes the range, below one of the ranges that are live with
// it. Chunks that have none of it are passed as a whole.
std::optional<int64_t> GreedyPlacement::gap_for(int32_t id, Fit fit) {
  const LiveRange& range = ranges_[id];
  int64_t gap_begin = 0;
  std::optional<int64_t> chosen;
  int64_t chosen_gap = std::numeric_limits<int64_t>::max();
  const auto can_pass = [&](const LiveBetween& between) {
    ++looks_;
    const LiveBetween::Live& live = between.live();
    if (!live.is_any) return true;
    const bool has_gap = live.gap >= range.bytes && live.gaps_end > gap_begin;
    if (has_gap || live.offset - gap_begin >= range.bytes) return false;
    gap_begin = std::max(gap_begin, live.end);
    return true;
  };
  PlacedList& near = placed_.near(sections_->of_range[id]);
  std::vector<PlacedChunk>& chunks = near.chunks();
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (chunks.size() > PlacedList::kGroup && i % PlacedList::kGroup == 0 &&
        can_pass(near.group_between(i / PlacedList::kGroup, range.first, range.last))) {
      i += PlacedList::kGroup - 1;
      continue;
    }
    PlacedChunk& chunk = chunks[i];
    if (chunks.size() > kFewChunks && can_pass(chunk.live_between(range.first, range.last)))
      continue;
    looks_ += static_cast<int64_t>(chunk.ranges().size());
    for (const PlacedRange& other : chunk.ranges()) {
      if (other.last < range.first || range.last < other.first) continue;
      const int64_t gap = other.offset - gap_begin;
      if (gap >= range.bytes && gap < chosen_gap) {
        chosen = gap_begin;
        chosen_gap = gap;
        if (fit == Fit::first || gap == range.bytes) return chosen;
      }
      gap_begin = std::max(gap_begin, other.end);
    }
  }
  return chosen;
}

std::optional<int64_t> GreedyPlacement::touching_gap_for(int32_t id, int64_t limit) {
  const LiveRange& range = ranges_[id];
  const auto steps_beside = [&](const PlacedRange& other) {
    return std::min(other.last, range.last) - std::max(other.first, range.first) + 1;
  };
  std::optional<int64_t> chosen;
  int32_t longest = -1;
  const auto consider = [&](int64_t begin, int64_t end, int32_t below, int32_t above) {
    const int64_t gap = end - begin;
    if (gap < range.bytes) return;
    const bool is_filled = gap == range.bytes;
    const int32_t steps = is_filled ? below + above : std::max(below, above);
    if (steps <= longest) return;
    longest = steps;
    chosen = is_filled || below >= above ? begin : end - range.bytes;
  };
  const std::vector<PlacedChunk>& near = placed_.near(sections_->of_range[id]).chunks();
  const auto steps_above = [&](size_t chunk, size_t from) {
    const int64_t offset = near[chunk].ranges()[from].offset;
    int32_t steps = 0;
    for (; chunk < near.size(); ++chunk, from = 0) {
      const auto& ranges = near[chunk].ranges();
      for (; from < ranges.size(); ++from) {
        if (ranges[from].offset != offset) return steps;
        steps += std::max(0, steps_beside(ranges[from]));
      }
    }
    return steps;
  };
  int64_t gap_begin = 0;
  int32_t below = range.last - range.first + 1;  // steps beside what ends where the gap begins
  for (size_t c = 0; c < near.size(); ++c) {
    const auto& ranges = near[c].ranges();
    for (size_t i = 0; i < ranges.size() && gap_begin <= limit - range.bytes; ++i) {
      const PlacedRange& other = ranges[i];
      if (steps_beside(other) <= 0) continue;
      if (other.offset - gap_begin >= range.bytes)
        consider(gap_begin, other.offset, below, steps_above(c, i));
      if (other.end > gap_begin) below = 0;
      if (other.end >= gap_begin) below += steps_beside(other);
      gap_begin = std::max(gap_begin, other.end);
    }
  }
  consider(gap_begin, limit, below, range.last - range.first + 1);
  return chosen;
}

}  // namespace snug::plan::internal
