// SPDX-License-Identifier: Apache-2.0
// The search for a cheap schedule of a general graph within a budget, first runs in a fixed order:
// it begins with the best of the states that cuts and given schedules lead to
// (retention_starts.h), else with a constructive one (retention_greedy.h), or annealing under a
// price on overflow where that does not fit, and goes on by ruin and recreate (retention_ruin.h).
// Deterministic: the limits are counts of moves and of work.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/graphs/retention_starts.h"
#include "plan/graphs/stage_graph.h"

namespace snug::plan {

/// How much a search may look at. `fast`: the best start. `standard`: improved for about a second
/// of one core up to 500 ops, three up to 5,000. `best`: improved for a minute and more.
enum class Effort : uint8_t { fast, standard, best };

struct RetentionLimits {
  uint64_t seed = 1;
  double factor = 1;  // on moves and work
  /// Schedules of other planners, whose first runs are in the order of the stages; those near the
  /// limit first.
  std::span<const std::vector<OpId>> schedules = {};
};

struct RetentionResult {
  bool fits = false;
  std::vector<OpId>
      schedule;  // op ids of the problem; where nothing fits, that of the smallest peak
  int64_t peak_bytes = 0;
  double seconds = 0;
};

/// Where a stop is due (base/stop.h), it ends early with the best that it has.
[[nodiscard]] RetentionResult search_retention(const ProblemIndex& index, const StageGraph& graph,
                                               int64_t limit_bytes, const RetentionLimits& limits);

/// Retention::work of a search that somebody waits for: up to a second below 500 ops, three at
/// 5,000.
[[nodiscard]] double quick_work(const StageGraph& graph);

/// States on the way from keep-all to the smallest peak that a search of about that work finds,
/// whatever they cost; their peaks fall.
[[nodiscard]] std::vector<Start> lowest_states(const ProblemIndex& index, const StageGraph& graph,
                                               const RetentionLimits& limits);

}  // namespace snug::plan
