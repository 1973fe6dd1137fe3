// SPDX-License-Identifier: Apache-2.0
// Greedy placement: ranges in some order, each into a gap between those already placed that are
// live with it.
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "plan/placement.h"

namespace snug::plan {
namespace {

// What is placed, by offset, so that one pass in order sees the gaps.
struct Placed {
  int64_t offset;
  int64_t end;
  int32_t first;
  int32_t last;
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

Placement place_in_order(std::span<const LiveRange> ranges, std::span<const int32_t> order, Fit fit,
                         int64_t abort_above) {
  Placement result;
  result.offsets.assign(ranges.size(), 0);
  std::vector<Placed> placed;
  placed.reserve(ranges.size());
  for (const int32_t id : order) {
    const LiveRange& range = ranges[static_cast<size_t>(id)];
    if (range.bytes == 0) continue;
    int64_t gap_begin = 0;
    int64_t chosen = -1;
    int64_t chosen_gap = std::numeric_limits<int64_t>::max();
    for (const Placed& other : placed) {
      if (other.last < range.first || range.last < other.first) continue;
      const int64_t gap = other.offset - gap_begin;
      if (gap >= range.bytes && gap < chosen_gap) {
        chosen = gap_begin;
        chosen_gap = gap;
        if (fit == Fit::first || gap == range.bytes) break;
      }
      gap_begin = std::max(gap_begin, other.end);
    }
    if (chosen < 0) chosen = gap_begin;
    result.offsets[static_cast<size_t>(id)] = chosen;
    const int64_t end = chosen + range.bytes;
    result.height = std::max(result.height, end);
    if (end > abort_above) {
      result.height = abort_above + 1;
      return result;
    }
    const Placed entry{chosen, end, range.first, range.last};
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), entry,
                         [](const Placed& a, const Placed& b) { return a.offset < b.offset; }),
        entry);
  }
  return result;
}

}  // namespace internal

Placement place_portfolio(std::span<const LiveRange> ranges, int64_t load_bytes) {
  static constexpr std::array kKeys = {Key::area,       Key::bytes, Key::lifetime,
                                       Key::contention, Key::death, Key::birth};
  Placement best;
  best.height = std::numeric_limits<int64_t>::max();
  std::vector<int32_t> order(ranges.size());
  for (const Key key : kKeys) {
    const std::vector<double> values = key_values(ranges, key);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
    });
    for (const internal::Fit fit : {internal::Fit::best, internal::Fit::first}) {
      Placement found = internal::place_in_order(ranges, order, fit, best.height - 1);
      if (found.height < best.height) best = std::move(found);
      if (best.height <= load_bytes) return best;
    }
  }
  return best;
}

Placement place(std::span<const LiveRange> ranges, const PlacementLimits& limits) {
  const int64_t load = load_of(ranges);
  Placement best = place_portfolio(ranges, load);
  const auto search_exactly = [&](int64_t max_nodes) {
    if (best.height <= load || max_nodes <= 0) return;
    if (auto exact = place_exact(ranges, load, max_nodes)) best = std::move(*exact);
  };
  // A first dive of the exact search costs little more than one greedy run and often ends at the
  // load.
  search_exactly(std::min(limits.exact_search_nodes, static_cast<int64_t>(ranges.size()) * 2 + 64));
  if (best.height > load && limits.local_search_rounds > 0) {
    best = place_local_search(ranges, load, std::move(best), limits.local_search_rounds);
  }
  search_exactly(limits.exact_search_nodes);
  return best;
}

}  // namespace snug::plan
