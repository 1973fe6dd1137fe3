// SPDX-License-Identifier: Apache-2.0
// A problem as the search for rematerializations sees it: ops renumbered in the order of their
// first runs, arena storages alone, operands in flat arrays. Stage t is the time from the end of
// the first run of op t - 1 to the end of the first run of op t; it may begin with runs of earlier
// ops. One more stage at the end has no op of its own: it reads what the problem keeps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/index_vector.h"
#include "plan/problem/index.h"

namespace snug::plan {

/// Rows of unequal length in one array.
class Rows {
 public:
  void add_row(IndexSpan<const int32_t> row) {
    values_.insert(values_.end(), row.begin(), row.end());
    begin_.push_back(static_cast<int32_t>(values_.size()));
  }
  [[nodiscard]] std::span<const int32_t> operator[](int32_t row) const {
    const auto first = static_cast<size_t>(begin_[row]);
    const auto last = static_cast<size_t>(begin_[row + 1]);
    return std::span(values_).subspan(first, last - first);
  }

 private:
  std::vector<int32_t> values_;
  IndexVector<int32_t> begin_{0};
};

struct StageGraph {
  /// `order` is a valid order of all ops of the problem.
  StageGraph(const ProblemIndex& index, IndexSpan<const OpId> order);

  int32_t op_count = 0;  // stages 0 .. op_count; the last one has no op
  int32_t storage_count = 0;
  IndexVector<OpId> op_ids;            // per op: its id in the problem
  std::vector<StorageId> storage_ids;  // per storage: its id in the problem
  Rows inputs;                         // per stage
  Rows outputs;                        // per stage
  Rows readers;                        // per storage, ascending
  Rows overwritten;                    // per stage: storages whose bytes an output takes over
  IndexVector<double> cost;            // per op
  IndexVector<int64_t> fixed_bytes;    // per stage: scratch less what outputs take over
  IndexVector<int32_t> last_stage;     // per op: the last stage in which it may run (again)
  IndexVector<int64_t> bytes;          // per storage
  IndexVector<int32_t> producer;       // per storage
  double base_cost = 0;                // every op once
};

/// What no schedule with these first runs can beat: an op's operands and scratch at its first run,
/// and beside them what cannot be made behind it, is made before it and read after it.
[[nodiscard]] WorkingSetBound pinned_order_bound(const StageGraph& graph);

}  // namespace snug::plan
