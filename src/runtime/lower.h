// SPDX-License-Identifier: Apache-2.0
// From a graph to the planner's problem: one storage for each value that owns bytes, one op for
// each node that runs a kernel. Views own nothing and run nothing; an output that must overwrite a
// resident value is that resident's storage.
//
// In place, decided here: an output that may be written over an input is, where its node is the
// input's only reader. In the forward part, which may run again, such a node is one op with the
// node before it that makes the input, and the two values are one storage (a convolution and its
// relu); in the backward part the op says so (plan::Op::reuses).
#pragma once

#include <vector>

#include "backend/backend.h"
#include "base/id_vector.h"
#include "plan/problem/plan.h"

namespace snug {

struct Lowered {
  plan::Problem problem;
  IdVector<std::vector<NodeId>> nodes_of_op;   // planner op -> graph nodes, run in this order
  IdVector<plan::StorageId> storage_of_value;  // graph value -> storage
  /// Of the time of all ops together, as a share of it: as if every kind of kernel were wrong in
  /// the same direction.
  double seconds_uncertainty = 0;
};

/// Selects a kernel for every node; throws what Backend::select throws. `pieces`: how many such
/// programs are one batch. Whether operands come from memory is decided for the batch in one piece,
/// as if its pieces found nothing in a cache that the whole does not: measured, they gain nothing.
[[nodiscard]] Lowered lower(const Graph& graph, const Backend& backend, int64_t pieces = 1);

}  // namespace snug
