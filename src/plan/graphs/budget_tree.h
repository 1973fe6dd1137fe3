// SPDX-License-Identifier: Apache-2.0
// The cheapest schedules with first runs in one order for all budgets, as a tree of searches of
// which a budget asks for a few. More budget is never more cost, by the way the tree is made:
//
//   anchors   a grid of budgets from the bound to keep-all. Each is searched briefly between two
//             that are known, the middle first: what fits the smaller is a candidate, and nothing
//             is taken that costs less than what was found for the larger.
//   ends      every anchor improved, never below the next anchor's brief result.
//   cells     from end to end, halved like the anchors; for what is left then some states are found
//             whatever the budget in it, which takes the cheapest that fits.
//
// So all that is found between two budgets costs no more than what was found at the lower and no
// less than at the upper, and every query sees the same of both. Nothing depends on which budgets
// were asked for before.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "plan/graphs/order_search.h"
#include "plan/graphs/retention_search.h"

namespace snug::plan {

struct TreeLimits {
  bool is_improved = true;      // ends and cells; else all is as brief as the anchors
  bool may_be_stopped = false;  // then `at` begins with what is soon found for the budget itself
  double factor = 1;            // on the counts that limit each search
};

class BudgetTree {
 public:
  /// First runs in one order, and schedules of other planners with these that lie near a budget.
  struct Order {
    std::vector<OpId> order;
    std::function<std::vector<std::vector<OpId>>(int64_t budget_bytes)> schedules;
  };

  /// The index must outlive the tree.
  BudgetTree(const ProblemIndex& index, Order order, const TreeLimits& limits);

  /// Where a stop is due (base/stop.h), the best that was found until then.
  [[nodiscard]] RetentionResult at(int64_t budget_bytes);

  /// The anchors and three budgets between each two; peaks rise, costs fall. Where a stop is due,
  /// those that were found until then.
  [[nodiscard]] std::vector<RetentionResult> curve();

 private:
  struct State {
    std::shared_ptr<const Start> start;  // null: none
    [[nodiscard]] double cost() const { return start->cost; }
    [[nodiscard]] int64_t peak() const { return start->peak_bytes; }
    [[nodiscard]] bool is_none() const { return start == nullptr; }
  };
  /// Budgets from `lower_bytes` to below `upper_bytes`, and what is known of both.
  struct Cell {
    int64_t lower_bytes;
    int64_t upper_bytes;
    State lower;
    State upper;
    bool is_lowest = false;  // below every anchor that was reached: nothing near was searched
  };

  [[nodiscard]] int64_t bytes_at(int32_t anchor) const;
  [[nodiscard]] bool is_many() const { return search_.graph().op_count >= kManyStages; }
  [[nodiscard]] const std::vector<State>& anchor(int32_t k);
  [[nodiscard]] const std::vector<State>& soon_found(int32_t k);
  [[nodiscard]] std::vector<State> reached(int32_t k);
  [[nodiscard]] static State best(const std::vector<State>& states) {
    return states.empty() ? State{} : states.front();
  }
  [[nodiscard]] std::vector<State> search_anchor(int32_t k, const State& lower, const State& upper);
  [[nodiscard]] const State& end(int32_t k);
  [[nodiscard]] double length_of(double lower_cost, double upper_cost, double rise) const;
  [[nodiscard]] State improved(std::vector<State> begins, const SearchBounds& bounds,
                               double length = 1);
  [[nodiscard]] State improved_in_turns(const std::vector<State>& begins,
                                        const SearchBounds& bounds, double length);
  [[nodiscard]] State smallest();
  [[nodiscard]] State stepped_down(State from, const SearchBounds& bounds);
  [[nodiscard]] std::optional<Cell> cell(int32_t k);
  [[nodiscard]] State middle(const Cell& cell, int64_t bytes, int32_t depth);
  [[nodiscard]] State last_that_fits(const Cell& cell, int64_t budget_bytes);
  [[nodiscard]] State descend(int64_t budget_bytes);
  [[nodiscard]] State raised(const State& from, const SearchBounds& bounds);
  [[nodiscard]] State lowered(const State& from, const SearchBounds& bounds);
  void add_curve(const Cell& cell, int32_t depth, std::vector<State>& found);
  State seen(Start start);
  [[nodiscard]] RetentionResult result(const State& state, int64_t budget_bytes);

  Order order_;
  TreeLimits limits_;
  OrderSearch search_;
  int64_t bottom_bytes_ = 0;
  int64_t top_bytes_ = 0;
  std::map<int32_t, std::vector<State>> soon_found_;  // of an anchor; cheapest first
  std::map<int32_t, std::vector<State>> anchors_;     // these, or what the way down has
  std::map<int32_t, State> ends_;
  int64_t wanted_bytes_ = 0;
  State best_seen_;  // within that, else of the smallest peak: the answer where a stop is due
};

}  // namespace snug::plan
