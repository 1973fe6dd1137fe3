// SPDX-License-Identifier: Apache-2.0
// What becomes one to the planner: which nodes are one op, and which values are one storage.
//
// A view is the storage that it looks at, and so is an output that must overwrite a resident value.
// In place: an output that may be written over an input is, where its node is the input's only
// reader. In the forward part, which may run again, such a node is one op with the node before it
// that makes the input, and the two values are one storage (a convolution and its relu); in the
// backward part the op says so (plan::Op::reuses).
//   nodes     %4 = conv2d(%1, %2)   %5 = relu(%4)   %6 = reshape(%5)
//   becomes   one op {conv2d, relu}, one storage, that of %5
#pragma once

#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/id_vector.h"
#include "graph/graph.h"
#include "plan/problem/plan.h"

namespace snug::compile {

struct OpGroups {
  IdVector<plan::OpId, std::vector<NodeId>> nodes;  // run in this order; views are in none
  IdVector<ValueId, ValueId> place_of_value;        // the one whose storage it has
  /// Places of outputs, and those of inputs that they may be written over.
  IdVector<plan::OpId, std::vector<std::pair<ValueId, ValueId>>> reuses;
};

[[nodiscard]] OpGroups group_ops(const Graph& graph, const Backend& backend);

}  // namespace snug::compile
