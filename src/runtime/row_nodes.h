// SPDX-License-Identifier: Apache-2.0
// The nodes of a row program with the places of their operands, from the steps of a plan.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "backend/backend.h"
#include "runtime/lowered.h"

namespace snug::runtime {

struct RowNodes {
  std::vector<RowNode> nodes;
  std::vector<ValueId> inputs;       // of the launch
  std::vector<ValueId> outputs;      // likewise
  std::vector<int32_t> input_steps;  // in which the plan says where it lies
  std::vector<int32_t> output_steps;
  int64_t scratch_bytes = 0;
};

/// The nodes by rows of the steps [first, last]. `row_form`: of a node.
[[nodiscard]] RowNodes row_nodes(const Graph& graph, const Lowered& lowered, const plan::Plan& plan,
                                 int32_t first, int32_t last,
                                 const std::function<RowwiseForm(const NodeSpec&)>& row_form);

}  // namespace snug::runtime
