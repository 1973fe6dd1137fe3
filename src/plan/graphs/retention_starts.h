// SPDX-License-Identifier: Apache-2.0
// Where a search over retention begins: states near the limit that come from elsewhere. What a cut
// of the bound keeps at one moment is the best that can be kept then by that price per byte; a
// schedule of the chain's table knows nested recomputation, which no cut does. Each is brought
// within the limit and what room is left is filled.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/graphs/random.h"
#include "plan/graphs/retention.h"
#include "plan/improve/bound.h"

namespace snug::plan {

/// From keep-all, nothing but `kept` stays in memory across the first run of the op at `stage`:
/// what is not kept is made again where it is read next. A change that can be taken back; false,
/// and keep-all again, where no schedule is so or `most_work` (Retention::work) is not enough:
/// where a long chain keeps next to nothing, its schedule is quadratic.
[[nodiscard]] bool keep_across(const StageGraph& graph, Retention& state,
                               std::span<const ArenaId> droppable, int32_t stage,
                               std::span<const StorageId> kept, int64_t most_work = INT64_MAX);

struct StartLimits {
  int32_t cuts = 0;                 // that are tried for each moment, those nearest to the limit
  size_t cuts_of_share = SIZE_MAX;  // of the limit, that are looked at
  int64_t work = 0;                 // Retention::work of all together; more until there is a start
  double mean_cost = 1;
  /// Drafts that cost so many times what the best start does are left out: they take longest to
  /// fill, and end where others begin.
  double dearest = 1e300;
  double least_cost = 0;  // states of less extra cost are not taken
};

struct Start {
  Retention::Snapshot state;
  int64_t peak_bytes = 0;
  double cost = 0;  // of all runs (Retention::cost)
};
[[nodiscard]] inline Start start_of(const Retention& state) {
  return {state.snapshot(), state.peak(), state.cost()};
}

/// Starts of one order of the first runs for any limit. Refers to what it is made of; the state
/// keeps all, and is left anywhere.
class StartFinder {
 public:
  StartFinder(const ProblemIndex& index, const StageGraph& graph, Retention& state,
              const std::vector<ArenaId>& droppable);

  /// Cheapest first: what was reached within the state's limit, from the schedules and from cuts at
  /// the loss and at the fullest stage of keep-all. Does not depend on earlier calls.
  [[nodiscard]] std::vector<Start> find(std::span<const std::vector<OpId>> schedules,
                                        Random& random, const StartLimits& limits);

 private:
  struct Moment {
    int32_t stage;
    MomentCuts cuts;
  };
  // A state on its way to the limit: what it is made of.
  struct Draft {
    const std::vector<OpId>* schedule = nullptr;
    const Moment* moment = nullptr;  // where there is no schedule
    std::vector<StorageId> kept;
    double distance = 0;  // of its peak from the limit, as a ratio
    double extra_cost = 0;
  };

  void add_cuts(Moment& moment, const StartLimits& limits);
  void add_draft(Draft draft);
  void make(const Draft& draft);
  void settle_drafts(size_t count, Random& random, const StartLimits& limits);
  [[nodiscard]] double cheapest() const;

  const StageGraph& graph_;
  Retention& state_;
  const std::vector<ArenaId>& droppable_;
  Retention::Snapshot keep_all_;
  std::vector<Moment> moments_;
  int64_t begin_ = 0;  // the state's work at the call
  std::vector<Draft> drafts_;
  std::vector<Start> starts_;
};

}  // namespace snug::plan
