// SPDX-License-Identifier: Apache-2.0
#include "plan/graphs/order_search.h"

#include <algorithm>

#include "base/stop.h"
#include "plan/graphs/retention_greedy.h"
#include "plan/graphs/retention_ruin.h"
#include "plan/graphs/retention_search.h"

namespace snug::plan {
namespace {

// Where a cut keeps little of a long chain, its state alone is quadratic: the tables have to do.
constexpr int32_t kMostStagesOfCuts = 10'000;
constexpr int32_t kCutsOfAnchor = 6;
constexpr int32_t kCutsOfLongAnchor = 4;
constexpr size_t kCutsOfShare = 2;
constexpr double kDearest = 3;
constexpr double kStartWork = 0.15;  // of a search that somebody waits for
constexpr double kGreedyWork = 0.5;  // where no start was found
constexpr int64_t kMostSteps = 100'000;
// A way by small steps: shares of a peak, and of the work of a search that somebody waits for.
constexpr double kFirstStep = 0.02;
constexpr double kLastStep = 0.002;
constexpr double kStepWork = 0.01;
constexpr double kStepsWork = 1;
constexpr double kHotStep = 0.3;

}  // namespace

OrderSearch::OrderSearch(const ProblemIndex& index, std::span<const OpId> order, double factor)
    : index_(index),
      factor_(factor),
      graph_(index, order),
      peers_(index, graph_),
      state_(graph_, 0),
      droppable_(droppable(graph_)),
      mean_cost_(mean_cost(graph_, droppable_)),
      keep_all_(here()),
      finder_(index, graph_, state_, droppable_) {}

// What is run again may cost so little. Sums differ by rounding; the caller compares whole costs.
double OrderSearch::least_extra(const SearchBounds& bounds) const {
  return std::max(0.0, bounds.least_cost - graph_.base_cost - 1e-12 * graph_.base_cost);
}

int64_t OrderSearch::start_work() const {
  return static_cast<int64_t>(factor_ * kStartWork * quick_work(graph_));
}

Random OrderSearch::random_for(const SearchBounds& bounds, uint64_t turn) const {
  constexpr uint64_t kTurns = 977;  // apart, in budgets of few bytes too
  return Random(static_cast<uint64_t>(bounds.limit_bytes) + kTurns * turn);
}

void OrderSearch::come_to(const Start& from, const SearchBounds& bounds) {
  state_.set_limit(bounds.limit_bytes);
  state_.restore(from.state);
}

std::vector<Start> OrderSearch::from_schedules(const SearchBounds& bounds,
                                               std::span<const std::vector<OpId>> schedules) {
  if (schedules.empty()) return {};
  return find(bounds, schedules, 0);
}

std::vector<Start> OrderSearch::find(const SearchBounds& bounds,
                                     std::span<const std::vector<OpId>> schedules, int32_t cuts) {
  come_to(keep_all_, bounds);
  if (state_.fits()) return {keep_all_};
  StartLimits limits;
  limits.cuts = cuts;
  if (graph_.op_count >= kManyStages) limits.cuts_of_share = kCutsOfShare;
  limits.work = start_work();
  limits.mean_cost = mean_cost_;
  limits.dearest = kDearest;
  limits.least_cost = least_extra(bounds);
  Random random = random_for(bounds);
  return finder_.find(schedules, random, limits);
}

std::vector<Start> OrderSearch::starts(const SearchBounds& bounds,
                                       std::span<const std::vector<OpId>> schedules) {
  int32_t cuts = graph_.op_count < kManyStages ? kCutsOfAnchor : kCutsOfLongAnchor;
  if (graph_.op_count > kMostStagesOfCuts && !schedules.empty()) cuts = 0;
  std::vector<Start> found = find(bounds, schedules, cuts);
  if (!found.empty() || is_stop_due()) return found;
  if (const std::optional<Start> only = greedy(bounds)) found.push_back(raise(*only, bounds));
  return found;
}

std::optional<Start> OrderSearch::greedy(const SearchBounds& bounds) {
  come_to(keep_all_, bounds);
  const auto work = static_cast<int64_t>(factor_ * kGreedyWork * quick_work(graph_));
  if (!drop_until_fits(state_, droppable_, work)) return std::nullopt;
  if (state_.extra_cost() < least_extra(bounds)) return std::nullopt;
  return here();
}

Start OrderSearch::raise(const Start& from, const SearchBounds& bounds,
                         const std::function<void(const Retention&)>& on_step) {
  if (from.cost <= bounds.least_cost) return from;
  come_to(from, bounds);
  fill_room(graph_, state_, {start_work(), least_extra(bounds), [&] { on_step(state_); }});
  return within(bounds, from);
}

std::optional<Start> OrderSearch::lower(const Start& from, const SearchBounds& bounds) {
  come_to(from, bounds);
  Random random = random_for(bounds);
  RuinLimits none;
  none.work = 1;
  none.mean_cost = mean_cost_;
  if (!ruin_and_recreate(graph_, state_, droppable_, random, none)) return std::nullopt;
  if (state_.extra_cost() < least_extra(bounds)) return std::nullopt;
  fill_room(graph_, state_, {start_work(), least_extra(bounds), [] {}});
  return here();
}

std::optional<Start> OrderSearch::step_down_to(int64_t limit_bytes) {
  if (steps_.found.empty()) {
    steps_.found.push_back(keep_all_);
    steps_.share = kFirstStep;
  }
  const auto most_work = static_cast<int64_t>(factor_ * kStepsWork * quick_work(graph_));
  while (steps_.found.back().peak_bytes > limit_bytes) {
    if (steps_.share < kLastStep || steps_.work >= most_work || is_stop_due()) return std::nullopt;
    take_step();
  }
  return *std::partition_point(steps_.found.begin(), steps_.found.end(),
                               [&](const Start& each) { return each.peak_bytes > limit_bytes; });
}

void OrderSearch::take_step() {
  const Start& last = steps_.found.back();
  const double bytes = (1 - steps_.share) * static_cast<double>(last.peak_bytes);
  const SearchBounds bounds{static_cast<int64_t>(bytes), 0};
  come_to(last, bounds);
  Random random(++steps_.number);
  RuinLimits limits;
  limits.steps = kMostSteps;
  limits.mean_cost = mean_cost_;
  limits.hot = kHotStep;
  limits.work = static_cast<int64_t>(factor_ * kStepWork * quick_work(graph_));
  const int64_t begin = state_.work();
  if (ruin_and_recreate(graph_, state_, droppable_, random, limits)) {
    steps_.found.push_back(here());
  } else {
    steps_.share /= 2;
  }
  steps_.work += state_.work() - begin;
}

Start OrderSearch::improve(const Start& from, const SearchBounds& bounds, double share, double hot,
                           uint64_t turn) {
  if (from.cost <= bounds.least_cost) return from;
  come_to(from, bounds);
  Random random = random_for(bounds, turn);
  RuinLimits limits;
  limits.work = static_cast<int64_t>(factor_ * share * quick_work(graph_));
  limits.steps = kMostSteps;
  limits.mean_cost = mean_cost_;
  limits.hot = hot;
  limits.peers = &peers_;
  limits.least_cost = least_extra(bounds);
  if (!ruin_and_recreate(graph_, state_, droppable_, random, limits)) return from;
  return within(bounds, from);
}

Start OrderSearch::within(const SearchBounds& bounds, const Start& otherwise) const {
  Start found = here();
  return found.cost >= bounds.least_cost && found.cost < otherwise.cost ? found : otherwise;
}

const std::vector<Start>& OrderSearch::way_down() {
  if (!way_down_) {
    RetentionLimits limits;
    limits.factor = factor_;
    way_down_ = lowest_states(index_, graph_, limits);
  }
  return *way_down_;
}

std::vector<OpId> OrderSearch::schedule(const Start& state) {
  state_.set_limit(state.peak_bytes);
  state_.restore(state.state);
  return state_.schedule();
}

}  // namespace snug::plan
