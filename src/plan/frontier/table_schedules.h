// SPDX-License-Identifier: Apache-2.0
// Schedules of the chain's tables around one budget, for a search that goes on from them. Blocks
// are cut in several sizes: where small ops cost as much as large ones it is not known beforehand
// which of them belong together.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "plan/chain/chain.h"
#include "plan/frontier/workshop.h"
#include "plan/problem/plan.h"

namespace snug::plan {

/// Tables that are solved once for all budgets. None where the problem has no backward part, or an
/// op that writes in the place of what the forward part made. Refers to the problem. For several
/// threads, one of which looks at a time.
class TableSchedules {
 public:
  /// On up to `threads` threads, on which nothing depends.
  TableSchedules(const Problem& problem, size_t block_sizes, int threads);

  /// With first runs in the given order; nearest to the budget first, above it and below.
  [[nodiscard]] std::vector<std::vector<OpId>> near(int64_t budget_bytes);

 private:
  // One size of blocks.
  struct Table {
    Table(const Problem& problem, BlockLimits limits)
        : shop(problem, limits), solver(shop.chain.blocks, shop.options) {}
    Workshop shop;
    ChainSolver solver;
    std::vector<int32_t> budgets = solver.distinct_budgets();
    std::map<size_t, int64_t> loads;  // by position among the budgets, as far as measured
  };
  struct NearSchedule {
    double distance = 0;  // of the load from the budget, as a ratio
    std::vector<OpId> schedule;
  };
  static void sort_nearest_first(std::vector<NearSchedule>& schedules);
  [[nodiscard]] static std::vector<NearSchedule> around(Table& table, int64_t budget_bytes);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Table>> tables_;
};

}  // namespace snug::plan
