// SPDX-License-Identifier: Apache-2.0
#include "plan/graphs/budget_tree.h"

#include <algorithm>
#include <utility>

#include "base/stop.h"
#include "snug/error.h"

namespace snug::plan {
namespace {

constexpr int32_t kAnchors = 16;     // a power of two
constexpr size_t kMostStates = 3;    // of an anchor
constexpr int32_t kFewStages = 200;  // improved from all of them
// Another start is improved where it costs no more than so much above the best.
constexpr double kWorthImproving = 1.01;
// A start that costs no more than so much above the anchor before needs no other beside it.
constexpr double kNear = 1.1;
constexpr int32_t kHalvings = 7;         // of a cell
constexpr int32_t kStartedHalvings = 3;  // of them, begun from schedules as well
constexpr int32_t kCurveHalvings = 2;
// Shares of a peak by which it is lowered; halved where that fails.
constexpr double kFirstStepDown = 0.01;
constexpr double kLastStepDown = 0.002;
// Shares of the work of a search that somebody waits for.
constexpr double kAnchorShare = 0.04;
constexpr double kEndShareOfFew = 0.35;
constexpr double kEndShare = 0.2;
constexpr double kEndShareOfMany = 0.3;
constexpr uint64_t kTurns = 4;  // of an end
constexpr int32_t kMostStagesFromKeepAll = 5000;
constexpr double kFromKeepAllShare = 0.4;
constexpr double kFromKeepAllShareOfMany = 0.8;  // up to kManyMoreStages: then that is long enough
constexpr int32_t kEndsOfLowest = 3;  // of the halvings of the lowest cell, searched like ends
constexpr double kMiddleShare = 0.05;
// Beyond kMostStagesFromKeepAll a search is so many times as long, at most, as costs rise by these
// shares: the steeper they are, the more is left to find.
constexpr double kRiseOfEnd = 0.008;
constexpr double kRiseOfMiddle = 0.001;
constexpr double kLongest = 12;
// Where a search becomes warm from a state that is nearly right, in mean costs.
constexpr double kHot = 2;
constexpr double kHotTurn = 0.6;
constexpr double kWarmer = 1.5;
constexpr double kWarm = 0.3;

}  // namespace

BudgetTree::BudgetTree(const ProblemIndex& index, Order order, const TreeLimits& limits)
    : order_(std::move(order)), limits_(limits), search_(index, order_.order, limits.factor) {
  top_bytes_ = search_.keep_all().peak_bytes;
  bottom_bytes_ = std::min(pinned_order_bound(search_.graph()).bytes, top_bytes_);
}

int64_t BudgetTree::bytes_at(int32_t anchor) const {
  const int64_t span = top_bytes_ - bottom_bytes_;
  return bottom_bytes_ + span / kAnchors * anchor + span % kAnchors * anchor / kAnchors;
}

BudgetTree::State BudgetTree::seen(Start start) {
  State state{std::make_shared<const Start>(std::move(start))};
  const auto is_better = [&](const State& than) {
    const bool fits = state.peak() <= wanted_bytes_;
    if (than.is_none() || fits != (than.peak() <= wanted_bytes_)) return than.is_none() || fits;
    return fits ? state.cost() < than.cost() : state.peak() < than.peak();
  };
  if (is_better(best_seen_)) best_seen_ = state;
  return state;
}

BudgetTree::State BudgetTree::raised(const State& from, const SearchBounds& bounds) {
  return seen(search_.raise(*from.start, bounds));
}

BudgetTree::State BudgetTree::lowered(const State& from, const SearchBounds& bounds) {
  std::optional<Start> start = search_.lower(*from.start, bounds);
  return start ? seen(std::move(*start)) : State{};
}

const std::vector<BudgetTree::State>& BudgetTree::anchor(int32_t k) {
  const auto known = anchors_.find(k);
  if (known != anchors_.end()) return known->second;
  if (k == 0) return anchors_[k];
  if (k == kAnchors) return anchors_[k] = {seen(search_.keep_all())};
  std::vector<State> found = soon_found(k);
  if (found.empty()) found = reached(k);
  stop_point();
  return anchors_[k] = std::move(found);
}

const std::vector<BudgetTree::State>& BudgetTree::soon_found(int32_t k) {
  const auto known = soon_found_.find(k);
  if (known != soon_found_.end()) return known->second;
  const int32_t step = k & -k;
  const State upper = best(anchor(k + step));
  if (k == 0 || upper.is_none()) return soon_found_[k];
  const State lower = k == step ? State{} : best(soon_found(k - step));
  std::vector<State> found = search_anchor(k, lower, upper);
  return soon_found_[k] = std::move(found);
}

// From the way down, which takes long: only where the anchor itself is asked for, not where it
// could help the one above.
std::vector<BudgetTree::State> BudgetTree::reached(int32_t k) {
  const State upper = best(anchor(k + 1));
  if (upper.is_none()) return {};
  const SearchBounds bounds{bytes_at(k), upper.cost()};
  for (const Start& each : search_.way_down()) {
    if (each.peak_bytes > bounds.limit_bytes) continue;
    State state = raised(seen(each), bounds);
    if (state.cost() < upper.cost()) break;
    state = seen(search_.improve(*state.start, bounds, kAnchorShare, kWarm));
    return {std::move(state)};
  }
  return {};
}

std::vector<BudgetTree::State> BudgetTree::search_anchor(int32_t k, const State& lower,
                                                         const State& upper) {
  const SearchBounds bounds{bytes_at(k), upper.cost()};
  std::vector<State> found;
  const auto add = [&](State state) {
    if (!state.is_none() && state.cost() >= upper.cost()) found.push_back(std::move(state));
  };
  for (Start& each : search_.starts(bounds, order_.schedules(bounds.limit_bytes)))
    add(seen(std::move(each)));
  if (!lower.is_none()) add(raised(lower, bounds));
  State low = lowered(upper, bounds);
  const auto is_near = [&](const State& each) { return each.cost() <= kNear * upper.cost(); };
  if (low.is_none() && std::none_of(found.begin(), found.end(), is_near)) {
    std::optional<Start> start = search_.step_down_to(bounds.limit_bytes);
    if (start) low = raised(seen(std::move(*start)), bounds);
  }
  add(std::move(low));
  const auto is_cheaper = [](const State& a, const State& b) { return a.cost() < b.cost(); };
  std::stable_sort(found.begin(), found.end(), is_cheaper);
  const auto is_same = [](const State& a, const State& b) {
    return a.start->state.spans == b.start->state.spans;
  };
  found.erase(std::unique(found.begin(), found.end(), is_same), found.end());
  if (found.size() > kMostStates) found.resize(kMostStates);
  if (found.empty()) return found;
  const State& best = found.front();
  State better = seen(search_.improve(*best.start, bounds, kAnchorShare, kWarm));
  if (better.cost() < best.cost()) {
    found.insert(found.begin(), std::move(better));
    if (found.size() > kMostStates) found.pop_back();
  }
  return found;
}

const BudgetTree::State& BudgetTree::end(int32_t k) {
  const auto known = ends_.find(k);
  if (known != ends_.end()) return known->second;
  const std::vector<State>& states = anchor(k);
  if (states.empty()) return ends_[k];
  if (k == kAnchors || !limits_.is_improved) return ends_[k] = states.front();
  const SearchBounds bounds{bytes_at(k), anchor(k + 1).front().cost()};
  const double length = length_of(states.front().cost(), bounds.least_cost, kRiseOfEnd);
  State found = improved(states, bounds, length);
  // Near the smallest peak costs are steep, and little of what was found above helps.
  const bool is_lowest = is_many() && anchor(k - 1).empty();
  if (is_lowest) found = improved({found}, bounds);
  stop_point();
  return ends_[k] = std::move(found);
}

// How many times as long a search is, by what the costs rise from more bytes to fewer.
double BudgetTree::length_of(double lower_cost, double upper_cost, double rise) const {
  if (search_.graph().op_count <= kMostStagesFromKeepAll || upper_cost <= 0) return 1;
  return std::clamp((lower_cost / upper_cost - 1) / rise, 1.0, kLongest);
}

// Few stages are improved from several states, the best of them last and longest; more of them from
// each in turn, then from the best found so far.
BudgetTree::State BudgetTree::improved(std::vector<State> begins, const SearchBounds& bounds,
                                       double length) {
  if (search_.graph().op_count > kFewStages) return improved_in_turns(begins, bounds, length);
  State best = begins.front();
  begins.resize(kMostStates, best);
  const auto is_hopeless = [&](const State& each) {
    return each.cost() > kWorthImproving * best.cost();
  };
  begins.erase(std::remove_if(begins.begin(), begins.end(), is_hopeless), begins.end());
  const double shortest = 2.0 / static_cast<double>(begins.size() * (begins.size() + 1));
  for (size_t i = 0; i < begins.size(); ++i) {
    if (is_stop_due() || best.cost() <= bounds.least_cost) break;
    const double share = kEndShareOfFew * shortest * static_cast<double>(i + 1);
    State found = seen(search_.improve(*begins[i].start, bounds, share, kHot));
    const bool is_better = found.cost() < best.cost();
    if (is_better) best = std::move(found);
    if (i == 0 && !is_better) break;  // a table has found it, or nothing will
  }
  return best;
}

// What a table or a cut has found is good, and far from all else: improved, the dear state that
// comes from keep-all often ends lower.
BudgetTree::State BudgetTree::improved_in_turns(const std::vector<State>& begins,
                                                const SearchBounds& bounds, double length) {
  State best = begins.front();
  const bool is_longer = is_many() && search_.graph().op_count <= kManyMoreStages;
  const double dear_share = is_longer ? kFromKeepAllShareOfMany : kFromKeepAllShare;
  const double turn_share = length * (is_many() ? kEndShareOfMany : kEndShare) / kTurns;
  if (search_.graph().op_count <= kMostStagesFromKeepAll && best.cost() > bounds.least_cost) {
    if (const std::optional<Start> dear = search_.greedy(bounds)) {
      State found = seen(search_.improve(*dear, bounds, dear_share, kHot));
      if (found.cost() < best.cost()) best = std::move(found);
    }
  }
  for (uint64_t turn = 0; turn < kTurns && best.cost() > bounds.least_cost; ++turn) {
    if (is_stop_due()) break;
    const State& begin = turn > 0 && turn < begins.size() ? begins[turn] : best;
    State found = seen(search_.improve(*begin.start, bounds, turn_share, kHotTurn, turn));
    if (found.cost() < best.cost()) best = std::move(found);
  }
  return best;
}

// The state of the smallest peak that the way down gets to.
BudgetTree::State BudgetTree::smallest() { return seen(search_.way_down().back()); }

// From anchor k to the next; none where nothing fits the budgets in it.
std::optional<BudgetTree::Cell> BudgetTree::cell(int32_t k) {
  Cell cell{bytes_at(k), bytes_at(k + 1), end(k), end(k + 1)};
  if (cell.upper.is_none()) return std::nullopt;
  if (cell.lower.is_none()) {
    cell.lower = smallest();
    if (cell.lower.peak() >= cell.upper.peak()) cell.lower = cell.upper;
    cell.lower = stepped_down(cell.lower, {bytes_at(k), cell.upper.cost()});
    cell.lower_bytes = cell.lower.peak();
    cell.is_lowest = true;
  }
  return cell;
}

// Lowered by small steps, as far as that goes. The smallest peak of a way down from keep-all is a
// gamble, and what was found for more bytes may get lower.
BudgetTree::State BudgetTree::stepped_down(State from, const SearchBounds& bounds) {
  for (double share = kFirstStepDown; share >= kLastStepDown && !is_stop_due();) {
    const double bytes = (1 - share) * static_cast<double>(from.peak());
    const auto limit = std::max(bounds.limit_bytes, static_cast<int64_t>(bytes));
    if (limit >= from.peak()) break;
    State lower = lowered(from, {limit, bounds.least_cost});
    if (lower.is_none()) {
      share /= 2;
    } else {
      from = std::move(lower);
    }
  }
  stop_point();
  return from;
}

BudgetTree::State BudgetTree::middle(const Cell& cell, int64_t bytes, int32_t depth) {
  if (cell.upper.peak() <= bytes) return cell.upper;
  const SearchBounds bounds{bytes, cell.upper.cost()};
  State best = cell.lower;
  const auto consider = [&](State state) {
    if (!state.is_none() && state.cost() < best.cost() && state.cost() >= cell.upper.cost())
      best = std::move(state);
  };
  consider(raised(cell.lower, bounds));
  consider(lowered(cell.upper, bounds));
  if (depth < kStartedHalvings) {
    for (Start& each : search_.from_schedules(bounds, order_.schedules(bytes)))
      consider(seen(std::move(each)));
  }
  const bool is_like_end = cell.is_lowest && is_many() && depth < kEndsOfLowest;
  if (limits_.is_improved && is_like_end) {
    const double length = length_of(cell.lower.cost(), cell.upper.cost(), kRiseOfEnd);
    consider(improved({best}, bounds, length));
  } else if (limits_.is_improved) {
    const double length = length_of(cell.lower.cost(), cell.upper.cost(), kRiseOfMiddle);
    consider(seen(search_.improve(*best.start, bounds, length * kMiddleShare, kWarmer)));
  }
  stop_point();
  return best;
}

// The best of states that are found for the whole cell, whatever the budget in it. Where many parts
// are equal, costs fall in leaps, and the starts at its upper end see one that lies in it.
BudgetTree::State BudgetTree::last_that_fits(const Cell& cell, int64_t budget_bytes) {
  State best = cell.lower;
  const SearchBounds bounds{cell.upper_bytes - 1, cell.upper.cost()};
  const auto consider = [&](const Start& start) {
    if (start.peak_bytes <= budget_bytes && start.cost < best.cost() &&
        start.cost >= cell.upper.cost())
      best = seen(start);
  };
  (void)search_.raise(*cell.lower.start, bounds, [&](const Retention& state) {
    if (state.peak() <= budget_bytes) consider(start_of(state));
  });
  for (const Start& each : search_.starts(bounds, order_.schedules(bounds.limit_bytes)))
    consider(each);
  return best;
}

BudgetTree::State BudgetTree::descend(int64_t budget_bytes) {
  int32_t k = 0;
  while (k + 1 < kAnchors && bytes_at(k + 1) <= budget_bytes) ++k;
  std::optional<Cell> found = cell(k);
  if (!found) return smallest();
  if (budget_bytes < found->lower_bytes) return found->lower;
  Cell& cell = *found;
  for (int32_t depth = 0; depth < kHalvings; ++depth) {
    if (cell.upper.peak() <= budget_bytes) return cell.upper;
    if (cell.lower.cost() <= cell.upper.cost()) return cell.lower;
    const int64_t bytes = cell.lower_bytes + (cell.upper_bytes - cell.lower_bytes) / 2;
    if (bytes <= cell.lower_bytes) break;
    State state = middle(cell, bytes, depth);
    const bool is_lower = bytes <= budget_bytes;
    (is_lower ? cell.lower : cell.upper) = std::move(state);
    (is_lower ? cell.lower_bytes : cell.upper_bytes) = bytes;
  }
  if (cell.upper.peak() <= budget_bytes) return cell.upper;
  return last_that_fits(cell, budget_bytes);
}

RetentionResult BudgetTree::at(int64_t budget_bytes) {
  wanted_bytes_ = budget_bytes;
  best_seen_ = {};
  if (top_bytes_ <= budget_bytes) return result(anchor(kAnchors).front(), budget_bytes);
  State found;
  try {
    if (limits_.may_be_stopped) {
      for (Start& each : search_.starts({budget_bytes, 0}, order_.schedules(budget_bytes)))
        (void)seen(std::move(each));
    }
    found = descend(budget_bytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::cancelled) throw;
  }
  if (is_stop_due()) found = best_seen_;
  if (found.is_none()) found = {std::make_shared<const Start>(search_.keep_all())};
  return result(found, budget_bytes);
}

void BudgetTree::add_curve(const Cell& cell, int32_t depth, std::vector<State>& found) {
  if (depth == kCurveHalvings || cell.lower.cost() <= cell.upper.cost()) return;
  const int64_t bytes = cell.lower_bytes + (cell.upper_bytes - cell.lower_bytes) / 2;
  const State state = middle(cell, bytes, depth);
  found.push_back(state);
  add_curve({cell.lower_bytes, bytes, cell.lower, state, cell.is_lowest}, depth + 1, found);
  add_curve({bytes, cell.upper_bytes, state, cell.upper, cell.is_lowest}, depth + 1, found);
}

std::vector<RetentionResult> BudgetTree::curve() {
  wanted_bytes_ = -1;
  std::vector<State> found = {anchor(kAnchors).front()};
  try {
    for (int32_t k = kAnchors; k-- > 0;) {
      const std::optional<Cell> each = cell(k);
      if (!each) break;
      found.push_back(each->lower);
      add_curve(*each, 0, found);
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::cancelled) throw;
  }
  std::stable_sort(found.begin(), found.end(), [](const State& a, const State& b) {
    return a.peak() != b.peak() ? a.peak() < b.peak() : a.cost() < b.cost();
  });
  std::vector<RetentionResult> points;
  for (const State& each : found) {
    if (points.empty() || each.cost() < points.back().seconds)
      points.push_back(result(each, each.peak()));
  }
  return points;
}

RetentionResult BudgetTree::result(const State& state, int64_t budget_bytes) {
  return {state.peak() <= budget_bytes, search_.schedule(*state.start), state.peak(), state.cost()};
}

}  // namespace snug::plan
