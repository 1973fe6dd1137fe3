// SPDX-License-Identifier: Apache-2.0
// Lets a weight gradient be computed straight into its accumulator, so that no gradient-sized
// temporary exists.
//   before   %4 = matmul(%1, %2) {transpose_a=true}   %5 = accumulate(%3, %4)
//   after    %4 = matmul_accumulate(%3, %1, %2) {transpose_a=true}
// Which ops have such a form, and for which operands, OpDef::accumulating_form says. Runs after
// remove_dead, before kernels are selected. Only where the gradient has no other reader. Rounding:
// the sum is formed in another place but once per element, as before.
#pragma once

#include "graph/op_def.h"

namespace snug::compile {

[[nodiscard]] Graph fuse_accumulate(Graph graph, const OpRegistry& registry);

}  // namespace snug::compile
