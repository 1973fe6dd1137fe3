// SPDX-License-Identifier: Apache-2.0
// A problem as the search for rematerializations sees it: ops renumbered in the order of their
// first runs, arena storages alone, operands in flat arrays. Stage t is the time from the end of
// the first run of op t - 1 to the end of the first run of op t; it may begin with runs of earlier
// ops. One more stage at the end has no op of its own: it reads what the problem keeps.
//
// Ways: an op runs by itself, which has its stage's number, or in a variant, whose numbers are
// those behind the last stage.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/id_vector.h"
#include "base/index_vector.h"
#include "plan/problem/index.h"

namespace snug::plan {

/// An arena storage of a stage graph.
using ArenaId = Id<struct ArenaTag>;

/// Rows of unequal length in one array. `Begins` is by row.
template <class T, class Begins = IndexVector<int32_t>>
class RaggedArray {
 public:
  void add_row(std::span<const T> row) {
    values_.insert(values_.end(), row.begin(), row.end());
    begin_.push_back(static_cast<int32_t>(values_.size()));
  }
  template <class Row>
  [[nodiscard]] std::span<const T> operator[](Row row) const {
    const auto first = static_cast<size_t>(begin_[row]);
    const auto last = static_cast<size_t>(begin_[row + 1]);
    return std::span(values_).subspan(first, last - first);
  }

 private:
  std::vector<T> values_;
  Begins begin_ = std::vector<int32_t>{0};
};

// From so many stages on a graph is searched otherwise: from fewer starts, lowered by annealing
// rather than squeezed; from so many more, in one round.
inline constexpr int32_t kManyStages = 500;
inline constexpr int32_t kManyMoreStages = 1500;

struct StageGraph {
  /// `order` is a valid order of all ops of the problem.
  StageGraph(const ProblemIndex& index, IndexSpan<const OpId> order);

  int32_t op_count = 0;                      // stages 0 .. op_count; the last one has no op
  IndexVector<OpId> run_ids;                 // per way: its id in the problem; the end has none
  IdVector<OpId, int32_t> way_of;            // by that id; of an op its stage
  IdVector<ArenaId, StorageId> storage_ids;  // in the problem
  RaggedArray<ArenaId> inputs;               // per way
  RaggedArray<ArenaId> outputs;              // per way
  RaggedArray<int32_t, IdVector<ArenaId, int32_t>> readers;  // stages, ascending; in any way
  RaggedArray<ArenaId> overwritten;  // per way: storages whose bytes an output takes over
  IndexVector<double> cost;          // per way
  IndexVector<int64_t> fixed_bytes;  // per way: scratch less what outputs take over
  IndexVector<int32_t> last_stage;   // per op: the last stage in which it may run (again)
  IndexVector<int32_t> last_of_way;  // per way: the same in this way
  IdVector<ArenaId, int64_t> bytes;
  IdVector<ArenaId, int32_t> producer;
  double base_cost = 0;  // every op once, by itself
  bool has_variants = false;
  RaggedArray<int32_t> variants;  // per stage: further ways of its op; no rows where there are none
  IndexVector<int32_t> op_of_variant;

  [[nodiscard]] int32_t op_of(int32_t way) const {
    return way <= op_count ? way : op_of_variant[way - op_count - 1];
  }
  [[nodiscard]] std::span<const int32_t> variants_of(int32_t op) const {
    return has_variants ? variants[op] : std::span<const int32_t>();
  }
  [[nodiscard]] bool reads(int32_t way, ArenaId storage) const {
    return std::ranges::find(inputs[way], storage) != inputs[way].end();
  }
};

/// What no schedule with these first runs can beat: an op's operands and scratch at its first run,
/// and beside them what cannot be made behind it, is made before it and read after it.
[[nodiscard]] WorkingSetBound pinned_order_bound(const StageGraph& graph);

}  // namespace snug::plan
