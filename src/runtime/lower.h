// SPDX-License-Identifier: Apache-2.0
// From a graph to the planner's problem: one storage for each value that owns bytes, one op for
// each node that runs a kernel. Views own nothing and run nothing; an output that must overwrite a
// resident value is that resident's storage. In the backward part an output that may be written
// over an input is, where its op is the input's only reader (plan::Op::reuses).
#pragma once

#include <vector>

#include "backend/backend.h"
#include "plan/plan.h"

namespace snug {

struct Lowered {
  plan::Problem problem;
  std::vector<NodeId> node_of_op;                 // planner op -> graph node
  std::vector<plan::StorageId> storage_of_value;  // graph value -> storage
  std::vector<KernelChoice> choices;              // by planner op
};

/// Selects a kernel for every node; throws what Backend::select throws.
[[nodiscard]] Lowered lower(const Graph& graph, const Backend& backend);

}  // namespace snug
