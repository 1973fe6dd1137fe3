// SPDX-License-Identifier: Apache-2.0
// Offset assignment: live ranges are rectangles (steps × bytes), find offsets so that none overlap
// and the highest byte is as low as possible. The load (largest sum of live bytes) is the lower
// bound; reaching it stops the search.
//
// Solvers are interchangeable: a portfolio of greedy orders, local search over the order, an exact
// search. All are deterministic: limits are counts, ties fall to the smaller index. Training
// schedules are stack-like and nearly always reach the load in the portfolio; the exact search is
// for what does not.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace snug::plan {

struct Placement {
  std::vector<int64_t> offsets;  // one per range
  int64_t height = 0;            // highest byte
};

struct PlacementLimits {
  int32_t local_search_rounds = 40;     // greedy runs of the local search
  int64_t exact_search_nodes = 20'000;  // partial placements the exact search may visit
};

/// Largest sum of bytes of ranges that are live at one step: no placement is lower.
[[nodiscard]] int64_t load_of(std::span<const LiveRange> ranges);

/// Places every range; tries the portfolio, then local search, then the exact search until height
/// == load.
[[nodiscard]] Placement place(std::span<const LiveRange> ranges,
                              const PlacementLimits& limits = {});

/// The best of the greedy orders {size, area, lifetime, birth, size × width of contention} × {first
/// fit, best fit}.
[[nodiscard]] Placement place_portfolio(std::span<const LiveRange> ranges, int64_t load_bytes);

/// Improves `start` by moving ranges that stick out of the load to the front of the placement
/// order.
[[nodiscard]] Placement place_local_search(std::span<const LiveRange> ranges, int64_t load_bytes,
                                           Placement start, int32_t rounds);

/// Depth-first search over canonical placements (offsets never fall along a branch). Returns
/// nothing when no placement within `capacity` was found in `max_nodes` visited nodes.
[[nodiscard]] std::optional<Placement> place_exact(std::span<const LiveRange> ranges,
                                                   int64_t capacity, int64_t max_nodes);

namespace internal {
enum class Fit : uint8_t { first, best };
/// Places in exactly this order; gives up (height = abort_above + 1) once a range would end above
/// `abort_above`.
[[nodiscard]] Placement place_in_order(std::span<const LiveRange> ranges,
                                       std::span<const int32_t> order, Fit fit,
                                       int64_t abort_above);
}  // namespace internal

}  // namespace snug::plan
