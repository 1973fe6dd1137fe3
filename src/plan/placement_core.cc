// SPDX-License-Identifier: Apache-2.0
// Placement around a core. Training plans have one or a few short moments that are nearly full;
// what lives then is a small problem that the exact search solves in a dive, while greedy orders,
// which know nothing of the peak, miss it by the one range that came too early. The rest has room.
#include <algorithm>
#include <array>

#include "plan/greedy.h"
#include "plan/placement.h"

namespace snug::plan {
namespace {

// A range belongs to the core if it lives in a section with more than this share of the capacity.
constexpr std::array kShares = {0.99, 0.97, 0.95, 0.9, 0.8, 0.7};

constexpr size_t kMostCore = 600;  // a dive into more costs more than what it may save

// Bytes of the fullest section of each range.
std::vector<int64_t> fullest_sections(std::span<const LiveRange> ranges, const Sections& sections) {
  RangeMax<Add> used(sections.count);
  for (size_t i = 0; i < ranges.size(); ++i)
    used.update(sections.of_range[i].begin, sections.of_range[i].end, ranges[i].bytes);
  std::vector<int64_t> fullest;
  for (const auto [begin, end] : sections.of_range) fullest.push_back(used.max(begin, end));
  return fullest;
}

}  // namespace

PlacementWithin place_around_core(std::span<const LiveRange> ranges, int64_t capacity,
                                  Placement start) {
  PlacementWithin result{std::move(start), false};
  Placement& best = result.placement;
  const Sections sections = sections_of(ranges);
  const std::vector<int64_t> fullest = fullest_sections(ranges, sections);
  const int32_t most_runs = greedy_runs(
      ranges.size(), static_cast<int32_t>(internal::kKeys.size() * internal::kFits.size()));
  size_t last_size = 0;
  for (const double share : kShares) {
    const double full = share * static_cast<double>(capacity);
    const auto is_core = [&](int32_t id) {
      return static_cast<double>(fullest[static_cast<size_t>(id)]) > full;
    };
    std::vector<int32_t> ids;
    std::vector<LiveRange> core;
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (!is_core(static_cast<int32_t>(i))) continue;
      ids.push_back(static_cast<int32_t>(i));
      core.push_back(ranges[i]);
    }
    if (core.size() == last_size) continue;
    if (core.size() > kMostCore) return result;
    last_size = core.size();
    const ExactPlacement found = place_exact(core, capacity, dive_nodes(core.size()));
    if (found.end == SearchEnd::impossible) result.is_impossible = true;
    // More ranges are not easier.
    if (found.end != SearchEnd::solved) return result;

    internal::GreedyPlacement around(ranges, sections);
    for (size_t i = 0; i < ids.size(); ++i) around.put(ids[i], found.placement.offsets[i]);
    int32_t runs_left = most_runs;
    for (const internal::Key key : internal::kKeys) {
      std::vector<int32_t> rest = internal::greedy_order(ranges, key);
      std::erase_if(rest, is_core);
      for (const internal::Fit fit : internal::kFits) {
        if (runs_left-- == 0) break;
        internal::GreedyPlacement greedy = around;
        if (!greedy.place(rest, fit, best.height - 1)) continue;
        best = greedy.placement();
        if (best.height <= capacity) return result;
      }
    }
  }
  return result;
}

}  // namespace snug::plan
