// SPDX-License-Identifier: Apache-2.0
// Certificates: what no schedule of a problem can beat, in bytes and in seconds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "plan/problem/index.h"
#include "plan/problem/plan.h"

namespace snug::plan {

/// The op whose arena inputs, outputs and scratch are the largest together. {0, -1} for a problem
/// without ops.
[[nodiscard]] WorkingSetBound working_set_bound(const Problem& problem);

/// The same in bytes beyond `together`: storages that are all live at one moment of every schedule
/// (gradients that wait for the global clip).
[[nodiscard]] WorkingSetBound working_set_bound_beyond(const Problem& problem,
                                                       std::span<const StorageId> together);

/// The same, and with an op's operands also what must be in memory beside them in every schedule:
/// storages that cannot be made again, made before this op by its ancestors and read after it by
/// its descendants, or at the fullest moments the least that is made of them and stands for them (a
/// mask for the draw that it is made of); or all that is kept at the end, beside the op that makes
/// the last of it. Never below working_set_bound. `in_listed_order`: first runs follow the order in
/// which ops are listed.
[[nodiscard]] WorkingSetBound pinned_set_bound(const Problem& problem,
                                               bool in_listed_order = false);

/// A number of seconds that no valid schedule within `arena_budget_bytes` can beat; at least the
/// time of running every op once. Valid for any schedule, not only for those this planner makes: a
/// cut relaxation at the loss and at moments of the backward part. Infinite where an op's own
/// operands exceed the budget. O(cuts of a network of ops and storages).
[[nodiscard]] double lower_bound_seconds(const Problem& problem, int64_t arena_budget_bytes);

/// The first op of the backward part that depends on the forward part; the end where none does.
[[nodiscard]] OpId loss_instant(const ProblemIndex& index);

/// lower_bound_seconds of many budgets, whose cuts are shared.
[[nodiscard]] std::vector<double> lower_bounds_seconds(
    const Problem& problem, std::span<const int64_t> arena_budgets_bytes);

class MomentBound;

/// What the cuts keep that bound the seconds at the first run of one op. Refers to the index.
class MomentCuts {
 public:
  MomentCuts(const ProblemIndex& index, OpId moment);
  ~MomentCuts();
  MomentCuts(MomentCuts&&) noexcept;
  MomentCuts& operator=(MomentCuts&&) noexcept;

  /// For each price per byte that the bound tries within each of the budgets, the storages that are
  /// in memory then and read later. Good places to begin a search, best ones last. What a budget
  /// gets does not depend on those before; cuts that they share are made once. At most so many of
  /// a budget, the best.
  [[nodiscard]] std::vector<std::vector<StorageId>> kept_sets(std::span<const int64_t> budgets,
                                                              size_t most = SIZE_MAX);

 private:
  std::unique_ptr<MomentBound> bound_;  // none where the graph is too large
};

}  // namespace snug::plan
