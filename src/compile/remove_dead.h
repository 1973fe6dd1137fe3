// SPDX-License-Identifier: Apache-2.0
// Removes nodes whose results nobody reads.
//   before   %2 = exp(%0)   %3 = tanh(%0)   output "y" %3
//   after    %2 = tanh(%0)   output "y" %2
// Runs first, after autodiff, which may leave helpers of gradients that freezing made unnecessary.
// Keeps graph outputs, nodes that overwrite residents, and residents themselves. O(nodes).
#pragma once

#include "graph/op_def.h"

namespace snug::compile {

[[nodiscard]] Graph remove_dead(Graph graph, const OpRegistry& registry);

}  // namespace snug::compile
