// SPDX-License-Identifier: Apache-2.0
// The search for a cheap schedule of a general graph within a budget, first runs in a fixed order:
// a constructive start (retention_greedy.h), annealing under a price on overflow where that does
// not fit, then ruin and recreate (retention_ruin.h). Deterministic: the limits are counts of moves
// and of work.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/graphs/stage_graph.h"

namespace snug::plan {

struct RetentionLimits {
  uint64_t seed = 1;
  double effort = 1;  // factor on moves and work
};

struct RetentionResult {
  bool fits = false;
  std::vector<OpId>
      schedule;  // op ids of the problem; where nothing fits, that of the smallest peak
  int64_t peak_bytes = 0;
  double seconds = 0;
};

/// Where a stop is due (base/stop.h), it ends early with the best that it has.
[[nodiscard]] RetentionResult search_retention(const StageGraph& graph, int64_t limit_bytes,
                                               const RetentionLimits& limits);

}  // namespace snug::plan
