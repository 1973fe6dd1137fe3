// SPDX-License-Identifier: Apache-2.0
#include "plan/frontier/remat.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/stop.h"
#include "plan/frontier/table_schedules.h"
#include "plan/graphs/budget_tree.h"
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
constexpr size_t kMostExactPoints = 100;  // of a curve

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

}  // namespace

class RematSolver::Search {
 public:
  Search(const Problem& problem, const RematLimits& limits)
      : limits_(limits), index_(problem), tables_(problem, block_sizes()) {
    orders_.push_back(
        {given_order(problem), [this](int64_t bytes) { return tables_.near(bytes); }});
    if (!limits.may_reorder) return;
    stop_point();
    std::vector<OpId> other = lower_peak_order(index_);
    if (other != orders_.front().order)
      orders_.push_back(
          {std::move(other), [](int64_t) { return std::vector<std::vector<OpId>>(); }});
  }

  /// Below the peak of the given order.
  RematResult at(int64_t budget_bytes) {
    if (std::optional<RematResult> exact = exact_at(budget_bytes)) return std::move(*exact);
    RetentionResult found = tree(limits_.effort != Effort::fast).at(budget_bytes);
    RematResult best = measured(index_.problem, std::move(found.schedule), budget_bytes);
    if (limits_.effort != Effort::best) return best;
    for (const BudgetTree::Order& each : orders_) {
      if (is_stop_due() || (best.fits && best.schedule.size() == index_.problem.ops.size())) break;
      RematResult longer = search_long(each, budget_bytes);
      if (is_better(longer, best)) best = std::move(longer);
    }
    return best;
  }

  std::vector<RematResult> curve(const RematResult& keep_all) {
    if (is_tiny()) return exact_curve(keep_all);
    std::vector<RematResult> points;
    for (RetentionResult& each : tree(limits_.effort == Effort::best).curve())
      points.push_back(measured(index_.problem, std::move(each.schedule), each.peak_bytes));
    for (RematResult& each : points) each.is_stopped = is_stop_due();
    return points;
  }

 private:
  [[nodiscard]] size_t block_sizes() const {
    if (limits_.effort == Effort::fast) return 1;
    return index_.op_count() < kManyOps ? kBlockSizes : kBlockSizesOfMany;
  }
  [[nodiscard]] bool is_tiny() const {
    return limits_.may_enumerate && index_.op_count() - limits_.boundary_ops <= kMaxExactOps;
  }
  std::optional<RematResult> exact_at(int64_t budget_bytes) const {
    if (!is_tiny()) return std::nullopt;
    return enumerate(index_, budget_bytes, limits_);
  }

  BudgetTree& tree(bool is_improved) {
    if (!tree_)
      tree_.emplace(index_, orders_,
                    TreeLimits{is_improved, limits_.may_be_stopped, limits_.factor});
    return *tree_;
  }

  // The search that has the time to begin from nothing.
  [[nodiscard]] RematResult search_long(const BudgetTree::Order& order,
                                        int64_t budget_bytes) const {
    const StageGraph graph(index_, order.order);
    const std::vector<std::vector<OpId>> schedules = order.schedules(budget_bytes);
    RetentionLimits search;
    search.factor = limits_.factor;
    search.schedules = schedules;
    RetentionResult found = search_retention(index_, graph, budget_bytes, search);
    return measured(index_.problem, std::move(found.schedule), budget_bytes);
  }

  // Each point is the cheapest below the peak of the one above.
  std::vector<RematResult> exact_curve(const RematResult& keep_all) const {
    std::vector<RematResult> points = {keep_all};
    while (points.size() < kMostExactPoints && !is_stop_due()) {
      std::optional<RematResult> next = exact_at(points.back().peak_bytes - 1);
      if (!next || !next->fits) break;
      if (next->seconds <= points.back().seconds) points.pop_back();
      points.push_back(std::move(*next));
    }
    std::reverse(points.begin(), points.end());
    return points;
  }

  RematLimits limits_;
  ProblemIndex index_;
  TableSchedules tables_;
  std::vector<BudgetTree::Order> orders_;
  std::optional<BudgetTree> tree_;
};

RematSolver::RematSolver(const Problem& problem, const RematLimits& limits)
    : problem_(problem),
      limits_(limits),
      keep_all_(measured(problem, given_order(problem), INT64_MAX)) {
  keep_all_.is_optimal = true;
}

RematSolver::~RematSolver() = default;

RematResult RematSolver::at(int64_t budget_bytes) {
  if (keep_all_.peak_bytes <= budget_bytes) return keep_all_;
  RematResult best = keep_all_;
  best.fits = best.is_optimal = false;
  try {
    if (search_ == nullptr) search_ = std::make_unique<Search>(problem_, limits_);
    best = search_->at(budget_bytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::cancelled) throw;
  }
  best.is_stopped = !best.is_optimal && is_stop_due();
  return best;
}

std::vector<RematResult> RematSolver::curve() {
  try {
    if (search_ == nullptr) search_ = std::make_unique<Search>(problem_, limits_);
    return search_->curve(keep_all_);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::cancelled) throw;
  }
  return {keep_all_};
}

RematResult solve_remat(const Problem& problem, int64_t budget_bytes, const RematLimits& limits) {
  return RematSolver(problem, limits).at(budget_bytes);
}

}  // namespace snug::plan
