// SPDX-License-Identifier: Apache-2.0
// Rematerialization of any graph for one budget: tiny problems are solved exhaustively, others by
// search_retention, which begins with what the chain's tables and the bound's cuts know.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/graphs/retention_search.h"
#include "plan/problem/plan.h"

namespace snug::plan {

struct RematLimits {
  bool may_reorder = false;   // also look for other orders of the first runs
  bool may_enumerate = true;  // exhaustive search where the problem is tiny
  int32_t boundary_ops = 0;   // of its ops; they do not count for that (plain_problem.h)
  Effort effort = Effort::standard;
  double factor = 1;  // on the counts that limit the search
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
