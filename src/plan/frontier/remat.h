// SPDX-License-Identifier: Apache-2.0
// Rematerialization of any graph within a budget: tiny problems are solved exhaustively, others by
// a tree of searches over all budgets (graphs/budget_tree.h), which begin with what the chain's
// tables and the bound's cuts know.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plan/graphs/retention_search.h"
#include "plan/problem/plan.h"

namespace snug::plan {

struct RematLimits {
  bool may_reorder = false;   // also look for other orders of the first runs
  bool may_enumerate = true;  // exhaustive search where the problem is tiny
  int32_t boundary_ops = 0;   // of its ops; they do not count for that (plain_problem.h)
  Effort effort = Effort::standard;
  double factor = 1;            // on the counts that limit the search
  bool may_be_stopped = false;  // then a search begins with what is soon found for its own budget
  int threads = 1;              // on which no result depends
};

struct RematResult {
  bool fits = false;
  bool is_stopped = false;     // a stop was due (base/stop.h): the best found until then
  bool is_optimal = false;     // nothing cheaper (where nothing fits: nothing smaller) exists
  std::vector<OpId> schedule;  // where nothing fits: that of the smallest peak found
  int64_t peak_bytes = 0;
  double seconds = 0;
};

/// One problem for any number of budgets. Results do not depend on which were asked for before, and
/// below Effort::best more budget never costs more.
class RematSolver {
 public:
  /// The problem must outlive the solver.
  RematSolver(const Problem& problem, const RematLimits& limits);
  ~RematSolver();

  [[nodiscard]] RematResult at(int64_t budget_bytes);

  /// The whole trade-off from the smallest peak found to keeping all: peaks rise, costs fall. At
  /// `best` points are improved as those of `at` at `standard` are, else they are brief.
  [[nodiscard]] std::vector<RematResult> curve();

 private:
  class Search;

  const Problem& problem_;
  RematLimits limits_;
  RematResult keep_all_;
  std::unique_ptr<Search> search_;
};

[[nodiscard]] RematResult solve_remat(const Problem& problem, int64_t budget_bytes,
                                      const RematLimits& limits);

}  // namespace snug::plan
