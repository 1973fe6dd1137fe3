// SPDX-License-Identifier: Apache-2.0
// Greedy placement: ranges in some order, each into a gap between those already placed that are
// live with it.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "plan/placement.h"
#include "plan/range_max.h"
#include "plan/sections.h"

namespace snug::plan {
namespace {

using Extent = std::pair<int64_t, int64_t>;

struct Placed {
  int64_t offset;
  int64_t end;
  int32_t first;
  int32_t last;
};

// Up to so many ranges, one list by offset is scanned: cheaper than sorting what an index finds.
constexpr size_t kScanned = 24'000;

// What is placed. Of many ranges, found by time: each is listed at the smallest aligned interval of
// 2^k sections that holds it, so that whoever asks looks at few ranges that are not live then.
class PlacedRanges {
 public:
  PlacedRanges(const Sections& sections, size_t ranges) : is_scanned_(ranges <= kScanned) {
    if (is_scanned_) return;
    const auto count = static_cast<uint32_t>(std::max(1, sections.count));
    const auto levels = static_cast<int>(std::bit_width(count)) + 1;
    for (int level = 0; level < levels; ++level) levels_.emplace_back((size_t{count} >> level) + 1);
  }

  void add(const Placed& placed, Sections::Interval interval) {
    if (is_scanned_) {
      by_offset_.insert(std::upper_bound(by_offset_.begin(), by_offset_.end(), placed,
                                         [](const Placed& a, const Placed& b) {
                                           return std::pair(a.offset, a.end) <
                                                  std::pair(b.offset, b.end);
                                         }),
                        placed);
      return;
    }
    const auto first = static_cast<uint32_t>(interval.begin);
    const auto last = static_cast<uint32_t>(interval.end - 1);
    const auto level = static_cast<int>(std::bit_width(first ^ last));
    Level& at = levels_[static_cast<size_t>(level)];
    at.lists[size_t{first} >> level].push_back(placed);
    ++at.count;
  }
  // The bytes [first, second) of all that is live with the range, by rising offset.
  [[nodiscard]] std::span<const Extent> near(const LiveRange& range, Sections::Interval interval) {
    found_.clear();
    for (const Placed& other : by_offset_) {
      if (other.last >= range.first && range.last >= other.first)
        found_.emplace_back(other.offset, other.end);
    }
    if (is_scanned_) return found_;
    for (size_t level = 0; level < levels_.size(); ++level) {
      if (levels_[level].count == 0) continue;
      const size_t end = static_cast<size_t>(interval.end - 1) >> level;
      for (size_t i = static_cast<size_t>(interval.begin) >> level; i <= end; ++i) {
        for (const Placed& other : levels_[level].lists[i]) {
          if (other.last >= range.first && range.last >= other.first)
            found_.emplace_back(other.offset, other.end);
        }
      }
    }
    std::sort(found_.begin(), found_.end());
    return found_;
  }

 private:
  struct Level {
    explicit Level(size_t size) : lists(size) {}
    std::vector<std::vector<Placed>> lists;
    int64_t count = 0;
  };
  bool is_scanned_;
  std::vector<Placed> by_offset_;
  std::vector<Level> levels_;
  std::vector<Extent> found_;
};

enum class Key : uint8_t { area, bytes, lifetime, birth, death, contention };

std::vector<double> key_values(std::span<const LiveRange> ranges, Key key) {
  std::vector<double> values(ranges.size());
  std::vector<double> contention;
  if (key == Key::contention) {
    // TAW: total bytes that are live while the range is, weighted by its own.
    int32_t steps = 0;
    for (const LiveRange& range : ranges) steps = std::max(steps, range.last + 1);
    std::vector<double> change(static_cast<size_t>(steps) + 1, 0.0);
    for (const LiveRange& range : ranges) {
      change[static_cast<size_t>(range.first)] += static_cast<double>(range.bytes);
      change[static_cast<size_t>(range.last) + 1] -= static_cast<double>(range.bytes);
    }
    contention.assign(static_cast<size_t>(steps) + 1, 0.0);
    double in_use = 0;
    for (size_t step = 0; step < static_cast<size_t>(steps); ++step) {
      in_use += change[step];
      contention[step + 1] = contention[step] + in_use;
    }
  }
  for (size_t i = 0; i < ranges.size(); ++i) {
    const LiveRange& range = ranges[i];
    const auto bytes = static_cast<double>(range.bytes);
    const double lifetime = range.last - range.first + 1;
    switch (key) {
      case Key::area:
        values[i] = bytes * lifetime;
        break;
      case Key::bytes:
        values[i] = bytes;
        break;
      case Key::lifetime:
        values[i] = lifetime;
        break;
      case Key::birth:
        values[i] = -range.first;
        break;
      case Key::death:
        values[i] = range.last;
        break;
      case Key::contention:
        values[i] = contention[static_cast<size_t>(range.last) + 1] -
                    contention[static_cast<size_t>(range.first)];
        break;
    }
  }
  return values;
}

// The first or the smallest gap that takes the range, below one of the ranges that are live with
// it.
std::optional<int64_t> gap_for(std::span<const Extent> placed, const LiveRange& range,
                               internal::Fit fit) {
  int64_t gap_begin = 0;
  std::optional<int64_t> chosen;
  int64_t chosen_gap = std::numeric_limits<int64_t>::max();
  for (const auto& [offset, end] : placed) {
    const int64_t gap = offset - gap_begin;
    if (gap >= range.bytes && gap < chosen_gap) {
      chosen = gap_begin;
      chosen_gap = gap;
      if (fit == internal::Fit::first || gap == range.bytes) break;
    }
    gap_begin = std::max(gap_begin, end);
  }
  return chosen;
}

}  // namespace

int64_t load_of(std::span<const LiveRange> ranges) {
  int32_t steps = 0;
  for (const LiveRange& range : ranges) steps = std::max(steps, range.last + 1);
  std::vector<int64_t> change(static_cast<size_t>(steps) + 1, 0);
  for (const LiveRange& range : ranges) {
    change[static_cast<size_t>(range.first)] += range.bytes;
    change[static_cast<size_t>(range.last) + 1] -= range.bytes;
  }
  int64_t load = 0;
  int64_t in_use = 0;
  for (const int64_t delta : change) load = std::max(load, in_use += delta);
  return load;
}

namespace internal {

std::optional<Placement> place_in_order(std::span<const LiveRange> ranges, const Sections& sections,
                                        std::span<const int32_t> order, Fit fit, int64_t limit) {
  Placement result;
  result.offsets.assign(ranges.size(), 0);
  PlacedRanges placed(sections, ranges.size());
  RangeMax<Add> used(sections.count);
  RangeMax<Raise> top(sections.count);
  for (const int32_t id : order) {
    const LiveRange& range = ranges[static_cast<size_t>(id)];
    if (range.bytes == 0) continue;
    const Sections::Interval interval = sections.of_range[static_cast<size_t>(id)];
    // Below the highest neighbour there is room only if the fullest section has as many bytes free.
    const int64_t neighbours_top = top.max(interval.begin, interval.end);
    int64_t chosen = neighbours_top;
    if (neighbours_top - used.max(interval.begin, interval.end) >= range.bytes) {
      chosen = gap_for(placed.near(range, interval), range, fit).value_or(neighbours_top);
    }
    if (range.bytes > limit - chosen) return std::nullopt;
    const int64_t end = chosen + range.bytes;
    result.offsets[static_cast<size_t>(id)] = chosen;
    result.height = std::max(result.height, end);
    used.update(interval.begin, interval.end, range.bytes);
    top.update(interval.begin, interval.end, end);
    placed.add({chosen, end, range.first, range.last}, interval);
  }
  return result;
}

}  // namespace internal

Placement place_portfolio(std::span<const LiveRange> ranges, int64_t enough) {
  static constexpr std::array kKeys = {Key::area,       Key::bytes, Key::lifetime,
                                       Key::contention, Key::death, Key::birth};
  const Sections sections = sections_of(ranges);
  Placement best{{}, kNoHeight};
  int64_t limit = kNoHeight;
  std::vector<int32_t> order(ranges.size());
  int32_t runs_left = greedy_runs(ranges.size(), 2 * static_cast<int32_t>(kKeys.size()));
  for (const Key key : kKeys) {
    const std::vector<double> values = key_values(ranges, key);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
    });
    for (const internal::Fit fit : {internal::Fit::best, internal::Fit::first}) {
      if (auto found = internal::place_in_order(ranges, sections, order, fit, limit)) {
        best = std::move(*found);
        if (best.height <= enough) return best;
        limit = best.height - 1;
      }
      if (--runs_left == 0) return best;
    }
  }
  return best;
}

}  // namespace snug::plan
