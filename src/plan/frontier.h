// SPDX-License-Identifier: Apache-2.0
// The planner's front door: the frontier of plans that were really placed, the named strategies,
// and what to say when nothing fits.
//
// The frontier does not depend on a budget, and the fastest plan that fits is taken from it; so
// more memory is never slower. Deterministic: limits are counts, never clocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/placement.h"
#include "plan/plan.h"

namespace snug::plan {

struct FrontierOptions {
  int32_t grid_points = 40;          // nominal budgets tried between the smallest and keep-all
  int32_t improvement_rounds = 400;  // moves of the peak-driven search
  PlacementLimits placement = {.local_search_rounds = 8, .exact_search_nodes = 2'000};
};
/// For the many frontiers of one run: greedy placement nearly always reaches the load, and where it
/// misses it by a few kilobytes another plan of the frontier costs less than the search.
inline constexpr FrontierOptions kQuickFrontier = {
    .grid_points = 32,
    .improvement_rounds = 200,
    .placement = {.local_search_rounds = 1, .exact_search_nodes = 0}};

/// Builds the frontier. Validates the problem first (Error{invalid_graph}).
[[nodiscard]] Frontier build_frontier(const Problem& problem, const FrontierOptions& options = {});

/// The same for a problem of equal structure and other sizes (another micro-batch, another length):
/// takes over the schedules of `model`, a frontier of `model_problem`, and measures and places them
/// anew. An order of magnitude faster. Where the structures differ, builds from scratch.
[[nodiscard]] Frontier build_frontier_like(const Problem& problem, const Problem& model_problem,
                                           const Frontier& model,
                                           const FrontierOptions& options = {});

/// One named strategy: "keep-all" or one of strategies.h. Throws Error{bad_config} for any other
/// name.
[[nodiscard]] Plan plan_strategy(const Problem& problem, std::string_view strategy,
                                 const FrontierOptions& options = {});

/// The fastest plan whose arena fits, or null. Never slower for a larger budget.
[[nodiscard]] const Plan* fastest_within(const Frontier& frontier, int64_t arena_budget_bytes);

/// Why a budget does not work, with the numbers for the message.
struct Refusal {
  struct Operand {
    std::string name;
    int64_t bytes = 0;
  };
  int64_t budget_bytes = 0;
  int64_t smallest_arena_bytes = 0;  // of the plans found
  WorkingSetBound bound;
  std::string op_name;            // the op that proves the bound
  std::vector<Operand> operands;  // its arena operands and scratch, largest first
  bool is_proved = false;         // budget < bound: impossible; otherwise "no plan found"
  int64_t gap_bytes = 0;          // smallest_arena_bytes - bound.bytes
};

/// Explains why `arena_budget_bytes` is refused.
[[nodiscard]] Refusal refuse(const Problem& problem, const Frontier& frontier,
                             int64_t arena_budget_bytes);

}  // namespace snug::plan
