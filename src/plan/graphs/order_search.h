// SPDX-License-Identifier: Apache-2.0
// One order of the first runs, with all that its searches share whatever the limit: the stages, a
// state to work on, the cuts. What a call returns follows from its arguments, not from the calls
// before.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "plan/graphs/peers.h"
#include "plan/graphs/retention_starts.h"

namespace snug::plan {

/// What a state must keep to: its peak to the limit, its cost (Retention::cost) to no less than
/// what was found for a larger one (budget_tree.h).
struct SearchBounds {
  int64_t limit_bytes = 0;
  double least_cost = 0;
};

class OrderSearch {
 public:
  /// `order` is a valid order of all ops. `factor` is on the counts that limit each search.
  OrderSearch(const ProblemIndex& index, std::span<const OpId> order, double factor);
  OrderSearch(const OrderSearch&) = delete;
  OrderSearch& operator=(const OrderSearch&) = delete;

  [[nodiscard]] const StageGraph& graph() const { return graph_; }
  [[nodiscard]] const Start& keep_all() const { return keep_all_; }

  /// From the schedules and from cuts (StartFinder), else from keep-all by the least cost per byte;
  /// cheapest first.
  [[nodiscard]] std::vector<Start> starts(const SearchBounds& bounds,
                                          std::span<const std::vector<OpId>> schedules);
  /// From keep-all by the least cost per byte, however dear; none where that gets stuck.
  [[nodiscard]] std::optional<Start> greedy(const SearchBounds& bounds);
  /// From the schedules only.
  [[nodiscard]] std::vector<Start> from_schedules(const SearchBounds& bounds,
                                                  std::span<const std::vector<OpId>> schedules);
  /// From a state within the limit: takes out repeated runs while there is room. `on_step` sees the
  /// state after each.
  [[nodiscard]] Start raise(
      const Start& from, const SearchBounds& bounds,
      const std::function<void(const Retention&)>& on_step = [](const Retention&) {});
  /// From a state above the limit, where that ends within the bounds.
  [[nodiscard]] std::optional<Start> lower(const Start& from, const SearchBounds& bounds);
  /// Ruin and recreate, from `hot` mean costs on, for a share of the work of a search that somebody
  /// waits for. No worse than `from`. Each turn has random numbers of its own.
  [[nodiscard]] Start improve(const Start& from, const SearchBounds& bounds, double share,
                              double hot, uint64_t turn = 0);
  /// Where one step from a larger budget is too long: the first state within the limit on a way
  /// from keep-all by small steps, each improved a little; none where that gets stuck above. The
  /// way is the same for all limits.
  [[nodiscard]] std::optional<Start> step_down_to(int64_t limit_bytes);
  /// On the way from keep-all to the smallest peak that is found, whatever it costs: the last one
  /// is the smallest.
  [[nodiscard]] const std::vector<Start>& way_down();
  [[nodiscard]] std::vector<OpId> schedule(const Start& state);

 private:
  [[nodiscard]] double least_extra(const SearchBounds& bounds) const;
  [[nodiscard]] std::vector<Start> find(const SearchBounds& bounds,
                                        std::span<const std::vector<OpId>> schedules, int32_t cuts);
  [[nodiscard]] int64_t start_work() const;
  [[nodiscard]] Random random_for(const SearchBounds& bounds, uint64_t turn = 0) const;
  [[nodiscard]] Start here() const { return start_of(state_); }
  // The state that a search has come to, where it is cheaper and not too cheap.
  [[nodiscard]] Start within(const SearchBounds& bounds, const Start& otherwise) const;
  void come_to(const Start& from, const SearchBounds& bounds);

  const ProblemIndex& index_;
  double factor_;
  StageGraph graph_;
  Peers peers_;
  Retention state_;
  std::vector<ArenaId> droppable_;
  double mean_cost_ = 1;
  Start keep_all_;
  StartFinder finder_;
  void take_step();

  // The way of step_down_to.
  struct Steps {
    std::vector<Start> found;  // peaks fall
    double share = 0;          // of a peak, in the next step
    uint64_t number = 0;
    int64_t work = 0;
  };
  Steps steps_;
  std::optional<std::vector<Start>> way_down_;
};

}  // namespace snug::plan
