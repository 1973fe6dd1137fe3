// SPDX-License-Identifier: Apache-2.0
// The planner's front door: the frontier of schedules, placed when asked for; the named strategies;
// and what to say when nothing fits.
//
// The frontier does not depend on a budget, and the fastest plan whose placement fits is taken from
// it; so more memory is never slower. Deterministic: limits are counts, never clocks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/placement/assemble.h"
#include "plan/placement/placement.h"
#include "plan/problem/liveness.h"
#include "plan/problem/plan.h"

namespace snug::plan {

struct FrontierOptions {
  int32_t grid_points = 80;          // nominal budgets tried between the smallest and keep-all
  int32_t improvement_rounds = 400;  // moves of the peak-driven search
  PlacementLimits placement = {.local_search_rounds = 8, .exact_search_nodes = 2'000};
  /// Where the chain says little, the search over graphs helps. It takes memory of its own, and
  /// whether it does follows from measured speeds, too: not where a budget holds the process.
  bool searches_graphs = true;
};
/// For the many frontiers of one run: greedy placement nearly always reaches the load, and where it
/// misses it by a few kilobytes another plan of the frontier costs less than the search.
inline constexpr FrontierOptions kQuickFrontier = {
    .grid_points = 48,
    .improvement_rounds = 200,
    .placement = {.local_search_rounds = 1, .exact_search_nodes = 0}};

/// A schedule with its exact load and time.
struct ScheduledPoint {
  std::vector<OpId> schedule;
  std::string strategy;
  int64_t load_bytes = 0;
  double seconds = 0;
  FusedSteps fused = {};
  int64_t kept_bytes = 0;  // StepLoads::kept_bytes, until steps are fused
};

[[nodiscard]] ScheduledPoint measured(const LivenessTable& table, std::vector<OpId> schedule,
                                      std::string strategy, FusedSteps fused = {});
/// The same steps, of which none is fused, where the ops have other seconds or another order: the
/// bytes stay.
[[nodiscard]] ScheduledPoint timed(const LivenessTable& table, ScheduledPoint point);
/// The same steps, fused as far as `most_bytes` permit: what can be fused waits for the next.
[[nodiscard]] ScheduledPoint fused(const Problem& problem, ScheduledPoint point,
                                   int64_t most_bytes);
[[nodiscard]] bool has_row_programs(const ScheduledPoint& point);
/// Whether any op is computed by rows.
[[nodiscard]] bool has_ops_by_rows(const Problem& problem);
/// Every point, of which no step is fused yet, with the sums of one kernel that its own load
/// permits; as it is then and in row programs. These take no more bytes together, but longer ranges
/// may be harder to place, so the other stays: with row programs no budget gets less than without.
/// One that is much slower than the fastest is there without the programs near its peak, too.
/// Slowest first.
[[nodiscard]] std::vector<ScheduledPoint> with_and_without_rows(const LivenessTable& table,
                                                                std::vector<ScheduledPoint> points);
void sort_slowest_first(std::vector<ScheduledPoint>& points);
/// Placed and fused as far as its own load permits, without row programs where they take a higher
/// arena.
[[nodiscard]] Plan placed_fused(const Problem& problem, ScheduledPoint point,
                                const PlacementLimits& limits);

/// Those that no other beats in both load and seconds, smallest load first.
[[nodiscard]] std::vector<ScheduledPoint> front_of(std::vector<ScheduledPoint> points);
[[nodiscard]] bool is_smaller(const ScheduledPoint& a, const ScheduledPoint& b);

/// Schedules that no other found beats in both load and seconds, each without row programs and with
/// them, slowest first. A placement takes longer than finding a schedule, and a budget needs few of
/// them: plan(i) is placed when it is first asked for, always in the same way, and its placement is
/// kept; whole plans of all points would be most of the planner's memory. For one thread. Refers to
/// the problem, which must stay where it is.
class Frontier {
 public:
  /// `points`: as they run, slowest first, not empty. `keep_all`: the order in which keep-all runs.
  Frontier(const Problem& problem, std::vector<ScheduledPoint> points, std::vector<OpId> keep_all,
           const PlacementLimits& limits);
  /// One plan that is placed already.
  Frontier(const Problem& problem, Plan only);

  [[nodiscard]] const std::vector<ScheduledPoint>& points() const { return points_; }
  [[nodiscard]] Plan plan(size_t point) const;
  [[nodiscard]] int64_t arena_bytes(size_t point) const;
  [[nodiscard]] Plan keep_all() const;
  [[nodiscard]] double keep_all_seconds() const { return keep_all_load_.seconds; }
  [[nodiscard]] int64_t keep_all_arena_bytes() const { return placed_keep_all().placement.height; }
  [[nodiscard]] const WorkingSetBound& bound() const { return bound_; }

  /// Every plan that no other beats in both arena and seconds, smallest arena first. Places all.
  [[nodiscard]] std::vector<Plan> plans() const;
  /// The one with the smallest arena.
  [[nodiscard]] Plan smallest() const;
  [[nodiscard]] size_t smallest_point() const;

 private:
  [[nodiscard]] const PlacedSchedule& placed(size_t point) const;
  [[nodiscard]] const PlacedSchedule& placed_keep_all() const;
  [[nodiscard]] bool keeps_all(size_t point) const;

  const Problem* problem_;
  std::vector<ScheduledPoint> points_;
  ScheduledPoint keep_all_load_;
  PlacementLimits limits_;
  WorkingSetBound bound_;
  std::optional<Plan> only_;  // which has no schedule among the points
  mutable std::vector<std::optional<PlacedSchedule>> placed_;
  mutable std::optional<PlacedSchedule> keep_all_;
};

/// Told now and then which share of a search is done, from 0 to 1, and what is being done.
using ShareSink = std::function<void(double share, const char* phase)>;

/// Builds the frontier. Validates the problem first (Error{invalid_graph}).
[[nodiscard]] Frontier build_frontier(const Problem& problem, const FrontierOptions& options = {},
                                      const ShareSink& on_share = {});
Frontier build_frontier(Problem&&, const FrontierOptions& = {},
                        const ShareSink& = {}) = delete;  // would dangle

/// Same ops on the same storages; bytes and seconds may differ.
[[nodiscard]] bool has_same_structure(const Problem& a, const Problem& b);

/// The same for a problem of equal structure and other sizes (another micro-batch, another length):
/// takes over the schedules of `model`, a frontier of `model_problem`, and measures them anew. An
/// order of magnitude faster. Where the structures differ, builds from scratch.
[[nodiscard]] Frontier build_frontier_like(const Problem& problem, const Problem& model_problem,
                                           const Frontier& model,
                                           const FrontierOptions& options = {},
                                           const ShareSink& on_share = {});

/// The same for a problem that is the model's but for ops of the prologue that it has beside them
/// (packings of weights, which run once) and for what its ops are called and cost: takes over the
/// schedules and their kernels; each of these ops runs in front of the first kernel that reads it.
/// Where the ops do not correspond, builds from scratch.
[[nodiscard]] Frontier build_frontier_beside(const Problem& problem, const Problem& model_problem,
                                             const Frontier& model,
                                             const FrontierOptions& options = {},
                                             const ShareSink& on_share = {});

/// One named strategy: "keep-all" or one of strategies.h. Throws Error{bad_config} for any other
/// name.
[[nodiscard]] Plan plan_strategy(const Problem& problem, std::string_view strategy,
                                 const FrontierOptions& options = {});

/// The fastest plan whose arena fits, or nothing. Never slower for a larger budget.
[[nodiscard]] std::optional<Plan> fastest_within(const Frontier& frontier,
                                                 int64_t arena_budget_bytes);

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
