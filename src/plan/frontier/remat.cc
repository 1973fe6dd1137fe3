// SPDX-License-Identifier: Apache-2.0
#include "plan/frontier/remat.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "base/id_vector.h"
#include "base/stop.h"
#include "base/tasks.h"
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

constexpr size_t kBlockSizes = 2;
constexpr double kShareOfVariants = 0.5;  // of a search's work, where another goes without them
constexpr size_t kMostExactPoints = 100;  // of a curve

RematResult measured(const Problem& problem, std::vector<OpId> schedule, int64_t budget_bytes) {
  const StopPause pause;  // a schedule that was found in time is not lost behind it
  const StepLoads loads = loads_of(problem, schedule);
  return {loads.load_bytes <= budget_bytes,
          false,
          false,
          std::move(schedule),
          loads.load_bytes,
          loads.seconds};
}

bool is_better(const RematResult& a, const RematResult& b) {
  if (a.fits != b.fits) return a.fits;
  return a.fits ? std::tie(a.seconds, a.peak_bytes) < std::tie(b.seconds, b.peak_bytes)
                : std::tie(a.peak_bytes, a.seconds) < std::tie(b.peak_bytes, b.seconds);
}

// The answer of the exhaustive search; nothing where it did not end.
std::optional<RematResult> enumerate(const ProblemIndex& index, int64_t budget_bytes,
                                     const RematLimits& limits) {
  ExactAnswer answer = cheapest_schedule(index, budget_bytes, limits.may_reorder);
  if (!answer.is_complete) return std::nullopt;
  if (!answer.schedule) {
    // The smallest budget that has an answer.
    int64_t too_small = std::max(budget_bytes, working_set_bound(index.problem).bytes - 1);
    int64_t enough = loads_of(index.problem, given_order(index.problem)).load_bytes;
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
      : limits_(limits), index_(problem), tables_(problem, block_sizes(), limits.threads) {
    if (!problem.variants.empty()) {
      without_variants_ = problem;
      without_variants_->variants.clear();
      by_themselves_ = std::make_unique<Search>(*without_variants_, limits);
      limits_.factor *= kShareOfVariants;
    }
    orders_.push_back(
        {given_order(problem), [this](int64_t budget_bytes) { return near(0, budget_bytes); }});
    if (limits.may_reorder) {
      stop_point();
      std::vector<OpId> other = lower_peak_order(index_);
      if (other != orders_.front().order)
        orders_.push_back({other, [this](int64_t budget_bytes) { return near(1, budget_bytes); }});
    }
    improved_trees_.resize(orders_.size());
    brief_trees_.resize(orders_.size());
  }

  RematResult at(int64_t budget_bytes) {
    if (std::optional<RematResult> exact = exact_at(budget_bytes)) return std::move(*exact);
    // More ways to run an op make nothing worse, and what is found without them is soon found.
    std::optional<RematResult> by_itself;
    if (by_themselves_ != nullptr) by_itself = by_themselves_->at(budget_bytes);
    if (by_itself && is_stop_due()) return std::move(*by_itself);
    RematResult found_here = cheapest([&](size_t order) {
      RetentionResult found = tree(order, limits_.effort != Effort::fast).at(budget_bytes);
      RematResult best = measured(index_.problem, std::move(found.schedule), budget_bytes);
      if (limits_.effort != Effort::best || is_stop_due() || runs_once(best)) return best;
      RematResult longer = search_long(orders_[order], budget_bytes);
      return is_better(longer, best) ? longer : best;
    });
    return by_itself && is_better(*by_itself, found_here) ? std::move(*by_itself) : found_here;
  }

  /// At budgets that each order's tree chooses.
  std::vector<RematResult> curve(const RematResult& keep_all) {
    if (is_tiny()) return exact_curve(keep_all);
    std::vector<std::vector<RetentionResult>> curves(orders_.size());
    for_orders(
        [&](size_t order) { curves[order] = tree(order, limits_.effort == Effort::best).curve(); });
    std::vector<RematResult> all;
    if (by_themselves_ != nullptr && !is_stop_due()) all = by_themselves_->curve(keep_all);
    for (std::vector<RetentionResult>& curve : curves) {
      for (RetentionResult& each : curve)
        all.push_back(measured(index_.problem, std::move(each.schedule), each.peak_bytes));
    }
    std::stable_sort(all.begin(), all.end(), [](const RematResult& a, const RematResult& b) {
      return a.peak_bytes != b.peak_bytes ? a.peak_bytes < b.peak_bytes : a.seconds < b.seconds;
    });
    std::vector<RematResult> points;
    for (RematResult& each : all) {
      each.is_stopped = is_stop_due();
      if (points.empty() || each.seconds < points.back().seconds) points.push_back(std::move(each));
    }
    return points;
  }

 private:
  [[nodiscard]] size_t block_sizes() const {
    return limits_.effort == Effort::fast ? 1 : kBlockSizes;
  }
  [[nodiscard]] bool is_tiny() const {
    return limits_.may_enumerate && index_.op_count() - limits_.boundary_ops <= kMaxExactOps;
  }
  std::optional<RematResult> exact_at(int64_t budget_bytes) const {
    if (!is_tiny()) return std::nullopt;
    return enumerate(index_, budget_bytes, limits_);
  }

  [[nodiscard]] bool runs_once(const RematResult& result) const {
    return result.fits && result.schedule.size() == index_.problem.ops.size() &&
           std::all_of(result.schedule.begin(), result.schedule.end(),
                       [&](OpId run) { return index_.problem.ops.has(run); });
  }

  // Nothing of one order depends on another, so each may have a thread.
  void for_orders(const std::function<void(size_t)>& work) const {
    run_tasks(limits_.threads, static_cast<int64_t>(orders_.size()),
              [&](int64_t order) { work(static_cast<size_t>(order)); });
  }

  [[nodiscard]] RematResult cheapest(const std::function<RematResult(size_t)>& of_order) const {
    std::vector<RematResult> found(orders_.size());
    for_orders([&](size_t order) { found[order] = of_order(order); });
    RematResult best = std::move(found.front());
    for (size_t order = 1; order < found.size(); ++order) {
      if (is_better(found[order], best)) best = std::move(found[order]);
    }
    return best;
  }

  // What the tables have near a budget, and what is soon found where no op runs in another way.
  std::vector<std::vector<OpId>> near(size_t order, int64_t budget_bytes) {
    std::vector<std::vector<OpId>> schedules = tables_.near(budget_bytes);
    if (order > 0) schedules = in_order(orders_[order].order, schedules);
    if (by_themselves_ != nullptr)
      schedules.push_back(by_themselves_->tree(order, false).at(budget_bytes).schedule);
    return schedules;
  }

  BudgetTree& tree(size_t order, bool is_improved) {
    std::unique_ptr<BudgetTree>& tree = (is_improved ? improved_trees_ : brief_trees_)[order];
    if (tree == nullptr)
      tree = std::make_unique<BudgetTree>(
          index_, orders_[order], TreeLimits{is_improved, limits_.may_be_stopped, limits_.factor});
    return *tree;
  }

  // Schedules whose first runs are in the listed order with first runs in another: what runs again
  // in front of the first run of an op does so there, too, where it has run before.
  [[nodiscard]] std::vector<std::vector<OpId>> in_order(
      const std::vector<OpId>& order, const std::vector<std::vector<OpId>>& schedules) const {
    std::vector<std::vector<OpId>> result;
    for (const std::vector<OpId>& schedule : schedules) {
      IdVector<OpId, std::vector<OpId>> again(order.size());
      IdVector<OpId, bool> has_run(order.size(), false);
      std::vector<OpId> waiting;
      for (const OpId op : schedule) {
        if (has_run[op]) {
          waiting.push_back(op);
        } else {
          has_run[op] = true;
          again[op] = std::exchange(waiting, {});
        }
      }
      std::fill(has_run.begin(), has_run.end(), false);
      std::vector<OpId>& other = result.emplace_back();
      for (const OpId op : order) {
        for (const OpId each : again[op]) {
          if (has_run[each]) other.push_back(each);
        }
        other.push_back(op);
        has_run[op] = true;
      }
    }
    return result;
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
  std::optional<Problem> without_variants_;
  std::unique_ptr<Search> by_themselves_;  // the search of that
  std::vector<BudgetTree::Order> orders_;
  std::vector<std::unique_ptr<BudgetTree>> improved_trees_;  // by order
  std::vector<std::unique_ptr<BudgetTree>> brief_trees_;
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
