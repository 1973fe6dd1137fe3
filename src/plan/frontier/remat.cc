// SPDX-License-Identifier: Apache-2.0
#include "plan/frontier/remat.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/stop.h"
#include "plan/frontier/table_schedules.h"
#include "plan/graphs/reorder.h"
#include "plan/graphs/small_exact.h"
#include "plan/graphs/stage_graph.h"
#include "plan/improve/bound.h"
#include "plan/problem/index.h"
#include "plan/problem/liveness.h"
#include "snug/error.h"

namespace snug::plan {
namespace {

constexpr int32_t kManyOps = 1000;
constexpr size_t kBlockSizes = 4;
constexpr size_t kBlockSizesOfMany = 2;
// Another order is searched on where its start costs no more than so much above the best.
constexpr double kWorthSearching = 1.01;

RematResult measured(const Problem& problem, std::vector<OpId> schedule, int64_t budget_bytes) {
  const StopPause pause;  // a schedule that was found in time is not lost behind it
  const Liveness live = analyse(problem, schedule);
  return {live.load_bytes <= budget_bytes,
          false,
          false,
          std::move(schedule),
          live.load_bytes,
          live.seconds};
}

bool is_better(const RematResult& a, const RematResult& b) {
  if (a.fits != b.fits) return a.fits;
  if (!a.fits) return a.peak_bytes < b.peak_bytes;
  if (a.seconds != b.seconds) return a.seconds < b.seconds;
  return a.peak_bytes < b.peak_bytes;
}

// The answer of the exhaustive search; nothing where it did not end.
std::optional<RematResult> enumerate(const ProblemIndex& index, int64_t budget_bytes,
                                     const RematLimits& limits) {
  ExactAnswer answer = cheapest_schedule(index, budget_bytes, limits.may_reorder);
  if (!answer.is_complete) return std::nullopt;
  if (!answer.schedule) {
    // The smallest budget that has an answer.
    int64_t too_small = std::max(budget_bytes, working_set_bound(index.problem).bytes - 1);
    int64_t enough = analyse(index.problem, given_order(index.problem)).load_bytes;
    while (enough - too_small > 1) {
      const int64_t middle = too_small + (enough - too_small) / 2;
      const ExactAnswer at_middle = cheapest_schedule(index, middle, limits.may_reorder);
      if (!at_middle.is_complete) return std::nullopt;
      (at_middle.schedule ? enough : too_small) = middle;
    }
    answer = cheapest_schedule(index, enough, limits.may_reorder);
    if (!answer.schedule) return std::nullopt;
  }
  RematResult result = measured(index.problem, std::move(*answer.schedule), budget_bytes);
  result.is_optimal = true;
  return result;
}

RematResult search_order(const ProblemIndex& index, std::span<const OpId> order,
                         std::span<const std::vector<OpId>> schedules, int64_t budget_bytes,
                         const RematLimits& limits) {
  const StageGraph graph(index, order);
  RetentionLimits search;
  search.effort = limits.effort;
  search.factor = limits.factor;
  search.schedules = schedules;
  RetentionResult found = search_retention(index, graph, budget_bytes, search);
  return measured(index.problem, std::move(found.schedule), budget_bytes);
}

// The first runs in another order. Where somebody waits, its start tells whether it is worth it.
RematResult search_other_order(const ProblemIndex& index, const std::vector<OpId>& order,
                               int64_t budget_bytes, const RematLimits& limits,
                               const RematResult& best) {
  if (limits.effort != Effort::standard)
    return search_order(index, order, {}, budget_bytes, limits);
  RematLimits quick = limits;
  quick.effort = Effort::fast;
  RematResult start = search_order(index, order, {}, budget_bytes, quick);
  const bool is_worth_it =
      start.fits && (!best.fits || start.seconds < kWorthSearching * best.seconds);
  return is_worth_it ? search_order(index, order, {}, budget_bytes, limits) : start;
}

// Improves on `best`, the given order.
void search(const Problem& problem, int64_t budget_bytes, const RematLimits& limits,
            RematResult& best) {
  const ProblemIndex index(problem);
  const std::vector<OpId> given = given_order(problem);
  if (limits.may_enumerate && index.op_count() - limits.boundary_ops <= kMaxExactOps) {
    if (std::optional<RematResult> exact = enumerate(index, budget_bytes, limits)) {
      best = std::move(*exact);
      return;
    }
  }
  const auto consider = [&](RematResult result) {
    if (is_better(result, best)) best = std::move(result);
  };
  const size_t block_sizes = index.op_count() < kManyOps ? kBlockSizes : kBlockSizesOfMany;
  const std::vector<std::vector<OpId>> of_tables =
      table_schedules(problem, budget_bytes, limits.effort == Effort::fast ? 1 : block_sizes);
  for (const std::vector<OpId>& each : of_tables) consider(measured(problem, each, budget_bytes));
  consider(search_order(index, given, of_tables, budget_bytes, limits));
  const bool runs_once = best.fits && best.schedule.size() == problem.ops.size();
  if (runs_once || !limits.may_reorder) return;
  stop_point();
  const std::vector<OpId> other = lower_peak_order(index);
  if (other == given) return;
  consider(measured(problem, other, budget_bytes));
  consider(search_other_order(index, other, budget_bytes, limits, best));
}

}  // namespace

RematResult solve_remat(const Problem& problem, int64_t budget_bytes, const RematLimits& limits) {
  RematResult best = measured(problem, given_order(problem), budget_bytes);
  if (best.fits) {
    best.is_optimal = true;
    return best;
  }
  try {
    search(problem, budget_bytes, limits, best);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::cancelled) throw;
  }
  best.is_stopped = !best.is_optimal && is_stop_due();
  return best;
}

}  // namespace snug::plan
