// SPDX-License-Identifier: Apache-2.0
// The nodes that are run to learn the rates of this machine: those of the ops (Timing::probes), the
// same in 16 bits, and the steps of all optimizers.
#pragma once

#include <vector>

#include "graph/op_def.h"

namespace snug {

/// One node. Those of one rate_kind() are fitted together.
struct ProbedNode {
  const OpDef* op = nullptr;
  RateProbe probe;
};

[[nodiscard]] std::vector<ProbedNode> probed_nodes();

}  // namespace snug
