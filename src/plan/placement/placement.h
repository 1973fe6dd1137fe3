// SPDX-License-Identifier: Apache-2.0
// Offset assignment: live ranges are rectangles (steps × bytes), find offsets so that none overlap
// and the highest byte is as low as possible. The load (largest sum of live bytes) is the lower
// bound; reaching it stops the search.
//
// Solvers are interchangeable: a portfolio of greedy orders, local search over the order, an exact
// search. All are deterministic: limits are counts, ties fall to the smaller index. Training
// schedules are stack-like and nearly always reach the load in the portfolio; the exact search is
// for what does not. Steps are small numbers: some memory is linear in the last of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/index_vector.h"
#include "plan/problem/plan.h"

namespace snug::plan {

inline constexpr int64_t kNoHeight = std::numeric_limits<int64_t>::max();

struct Placement {
  IndexVector<int64_t> offsets;  // one per range
  int64_t height = 0;            // highest byte
};

struct PlacementLimits {
  int32_t local_search_rounds = 40;     // greedy runs of the local search
  int64_t exact_search_nodes = 20'000;  // nodes of all exact searches together; 0 is none
};

/// Greedy runs that many ranges are worth: long schedules get fewer.
[[nodiscard]] constexpr int32_t greedy_runs(size_t ranges, int32_t most) {
  constexpr size_t kPlacedInAll = 120'000;
  constexpr size_t kFewest = 1;
  const auto limit = static_cast<size_t>(std::max(1, most));
  return static_cast<int32_t>(
      std::clamp(kPlacedInAll / (ranges + 1), std::min(kFewest, limit), limit));
}

/// Largest sum of bytes of ranges that are live at one step: no placement is lower.
[[nodiscard]] int64_t load_of(IndexSpan<const LiveRange> ranges);

/// Places every range as low as the limits allow: portfolio, local search and exact search until
/// height == load; where that is not reached, exact searches for capacities in between.
[[nodiscard]] Placement place(IndexSpan<const LiveRange> ranges,
                              const PlacementLimits& limits = {});

/// The same with a capacity: stops at the first placement that is not higher. The lowest found is
/// returned in any case; is_impossible tells that an exhaustive search found none within
/// `capacity`.
struct PlacementWithin {
  Placement placement;
  bool is_impossible = false;
};
[[nodiscard]] PlacementWithin place_within(IndexSpan<const LiveRange> ranges, int64_t capacity,
                                           const PlacementLimits& limits = {});

/// Improves `start` by greedy runs of the portfolio (greedy.h), from `first_run` on, until one is
/// not higher than `enough`. Without offsets and with kNoHeight where all of them pass the largest
/// int64.
[[nodiscard]] Placement place_portfolio(IndexSpan<const LiveRange> ranges, int64_t enough,
                                        Placement start = {{}, kNoHeight}, int32_t first_run = 0,
                                        int32_t most_runs = std::numeric_limits<int32_t>::max());

/// Improves `start` by moving ranges that stick out of `enough` to the front of the placement
/// order.
[[nodiscard]] Placement place_local_search(IndexSpan<const LiveRange> ranges, int64_t enough,
                                           Placement start, int32_t rounds);

/// Improves `start`: the ranges that live where nearly all of `capacity` is used are placed by
/// exact search, those of equal full moments as one; the others around them greedily; for growing
/// shares of the ranges, until the height is not above `capacity`, or a share is large or not
/// solved in a dive. is_impossible: not even those fit.
[[nodiscard]] PlacementWithin place_around_core(IndexSpan<const LiveRange> ranges, int64_t capacity,
                                                Placement start);

/// Improves `start`: sizes that are nearly equal are taken as equal, small ranges are left for
/// last, and what is found settles.
[[nodiscard]] Placement place_coarse(IndexSpan<const LiveRange> ranges, int64_t capacity,
                                     Placement start);

enum class SearchEnd : uint8_t {
  solved,
  impossible,  // proved: the whole tree was searched
  stopped,     // at the limit of nodes
};

struct ExactPlacement {
  SearchEnd end = SearchEnd::stopped;
  Placement placement;  // where `end` is solved
  int64_t nodes = 0;    // visited
};

/// A placement within `capacity`, or the proof that there is none, by tree search with restarts
/// (placement_exact.cc). Gives up after `max_nodes`; a node costs about 10 µs.
[[nodiscard]] ExactPlacement place_exact(IndexSpan<const LiveRange> ranges, int64_t capacity,
                                         int64_t max_nodes);

/// Enough nodes for a first dive to the end with few failures; costs little more than a greedy run.
[[nodiscard]] constexpr int64_t dive_nodes(size_t ranges) {
  return static_cast<int64_t>(ranges) * 2 + 64;
}

}  // namespace snug::plan
