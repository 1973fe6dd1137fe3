// SPDX-License-Identifier: Apache-2.0
// Rematerialization of a general graph, no block structure assumed: the whole of it for one budget.
// Tiny problems are solved exhaustively, others by search_retention.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/problem/plan.h"

namespace snug::plan {

struct RematLimits {
  bool may_reorder = false;   // also look for other orders of the first runs
  bool may_enumerate = true;  // exhaustive search where the problem is tiny
  double effort = 1;          // factor on the search's limits
};

struct RematResult {
  bool fits = false;
  bool is_stopped = false;     // a stop was due (base/stop.h): the best found until then
  bool is_optimal = false;     // nothing cheaper (where nothing fits: nothing smaller) exists
  std::vector<OpId> schedule;  // where nothing fits: that of the smallest peak found
  int64_t peak_bytes = 0;
  double seconds = 0;
};

[[nodiscard]] RematResult solve_remat(const Problem& problem, int64_t budget_bytes,
                                      const RematLimits& limits);

}  // namespace snug::plan
