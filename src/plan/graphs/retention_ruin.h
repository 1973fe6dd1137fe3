// SPDX-License-Identifier: Apache-2.0
// Large steps of the search over retention: several repeated runs that lie near each other are
// taken out at once, and what then exceeds the limit is dropped again, each time the gap that costs
// least for what it relieves. Unlike the annealing's moves every choice is priced by the exact
// state.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/graphs/peers.h"
#include "plan/graphs/random.h"
#include "plan/graphs/retention.h"

namespace snug::plan {

struct RuinLimits {
  int64_t work = 0;      // Retention::work
  int64_t steps = 0;     // whichever ends first
  double mean_cost = 1;  // of an op: the unit of temperatures
  double hot = 2;        // where the temperature begins
  /// States of less extra cost are not taken: what a smaller limit must not beat
  /// (budget_tree.h).
  double least_cost = 0;
  const Peers* peers = nullptr;            // what improves a state is tried in equal parts as well
  std::function<void()> on_lower = [] {};  // sees the state at each step of `squeeze`
};

/// Drops until the state fits, where it does not, and leaves it at the cheapest one found; false
/// where that gets stuck above the limit.
[[nodiscard]] bool ruin_and_recreate(const StageGraph& graph, Retention& state,
                                     const std::vector<ArenaId>& droppable, Random& random,
                                     const RuinLimits& limits);

/// Lowers the peak to the state's limit, whatever it costs (lower_peak_by_steps); false where it
/// ends above. Leaves the state of the smallest peak, and the limit as it was.
[[nodiscard]] bool squeeze(const StageGraph& graph, Retention& state,
                           const std::vector<ArenaId>& droppable, Random& random,
                           const RuinLimits& limits);

}  // namespace snug::plan
