// SPDX-License-Identifier: Apache-2.0
// The order in which the solvers are tried, and what is done where the load is not reached.
#include "plan/placement/placement.h"

#include <algorithm>

#include "base/index_vector.h"

namespace snug::plan {
namespace {

constexpr int32_t kFirstRuns = 2;         // of the portfolio, before anything that costs more
constexpr double kNearGoal = 1.002;       // of the goal: more greedy orders do not help any more
constexpr size_t kMostSearched = 12'000;  // ranges; beyond, a greedy run costs a tenth of a second
constexpr size_t kMostRefined = 150'000;  // ranges; beyond, one greedy run has to do
constexpr int32_t kCapacities = 8;        // that are tried between the load and the lowest height

// By bisection; a capacity at which the search gave up counts as too small.
void search_between(IndexSpan<const LiveRange> ranges, int64_t too_small, int64_t max_nodes,
                    Placement& best) {
  if (max_nodes < dive_nodes(ranges.size())) return;
  for (int32_t i = 0; i < kCapacities && best.height - too_small > 1; ++i) {
    const int64_t capacity = too_small + (best.height - too_small) / 2;
    ExactPlacement found = place_exact(ranges, capacity, max_nodes);
    if (found.end == SearchEnd::solved) {
      best = std::move(found.placement);
    } else {
      too_small = capacity;
    }
  }
}

}  // namespace

PlacementWithin place_within(IndexSpan<const LiveRange> ranges, int64_t capacity,
                             const PlacementLimits& limits) {
  PlacementWithin result{place_portfolio(ranges, capacity, {{}, kNoHeight}, 0, kFirstRuns), false};
  Placement& best = result.placement;
  int64_t nodes_left = limits.exact_search_nodes;
  const auto search = [&](int64_t max_nodes) {
    if (best.height <= capacity || max_nodes <= 0 || result.is_impossible) return;
    ExactPlacement found = place_exact(ranges, capacity, max_nodes);
    nodes_left -= found.nodes;
    if (found.end == SearchEnd::solved) best = std::move(found.placement);
    result.is_impossible = found.end == SearchEnd::impossible;
  };
  if (ranges.size() > kMostRefined && best.height < kNoHeight) return result;
  if (best.height > capacity)
    result = place_around_core(ranges, capacity, std::move(result.placement));
  if (best.height > capacity && !result.is_impossible)
    best = place_coarse(ranges, capacity, std::move(best));
  const double near = kNearGoal * static_cast<double>(capacity);
  if (static_cast<double>(best.height) > near && !result.is_impossible)
    best = place_portfolio(ranges, capacity, std::move(best), kFirstRuns);
  search(std::min(nodes_left, dive_nodes(ranges.size())));
  if (best.height > capacity && best.height < kNoHeight && !result.is_impossible &&
      limits.local_search_rounds > 0 && ranges.size() <= kMostSearched) {
    const int32_t rounds = greedy_runs(ranges.size(), limits.local_search_rounds);
    best = place_local_search(ranges, capacity, std::move(best), rounds);
  }
  search(nodes_left);
  return result;
}

Placement place(IndexSpan<const LiveRange> ranges, const PlacementLimits& limits) {
  const int64_t load = load_of(ranges);
  // A quarter of the nodes for the load itself, but a whole dive if there are that many; the rest
  // for what lies above it.
  const int64_t nodes = limits.exact_search_nodes;
  PlacementLimits at_load = limits;
  at_load.exact_search_nodes = std::min(nodes, std::max(nodes / 4, dive_nodes(ranges.size())));
  Placement best = place_within(ranges, load, at_load).placement;
  search_between(ranges, load, (nodes - at_load.exact_search_nodes) / kCapacities, best);
  return best;
}

}  // namespace snug::plan
