// SPDX-License-Identifier: Apache-2.0
// A program as the planner sees it, and how it is read back (compile/lower.h makes one).
#pragma once

#include <vector>

#include "base/id_vector.h"
#include "graph/graph.h"
#include "plan/problem/plan.h"

namespace snug::runtime {

struct Lowered {
  plan::Problem problem;
  IdVector<plan::OpId, std::vector<NodeId>>
      nodes_of_op;  // planner op -> graph nodes, run in this order
  /// The last of an op's nodes, which are computed by rows (plan::Op::rowwise): how many.
  IdVector<plan::OpId, int32_t> nodes_by_rows;
  IdVector<ValueId, plan::StorageId> storage_of_value;  // graph value -> storage
  /// How wrong the time of all ops together may be, as a share of it: as if every kind of kernel
  /// were wrong in the same direction.
  double seconds_uncertainty = 0;
};

/// Whether the last nodes of an op are a row program wherever the op runs: they write over one
/// another's results, so nothing has to be planned for it.
[[nodiscard]] inline bool is_program_by_itself(const plan::Op& op, int32_t nodes_by_rows) {
  return nodes_by_rows > 1 && op.rowwise->form.scratch_bytes <= op.scratch_bytes;
}

}  // namespace snug::runtime
