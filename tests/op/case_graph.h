// SPDX-License-Identifier: Apache-2.0
// One op case as a graph of one node, with its inputs drawn from the case's domains: the same
// numbers every time.
#pragma once

#include <vector>

#include "backend/reference/reference.h"
#include "graph/builder.h"
#include "ops/op_case.h"

namespace snug {

/// Inputs of the types that weights with gradients have: they are parameters.
[[nodiscard]] inline bool is_differentiated(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16x8;
}

struct CaseGraph {
  GraphBuilder builder;
  NodeId node;
  std::vector<ValueId> inputs;  // kNone where absent
  std::vector<ValueId> outputs;
  RefValues feeds;  // f32 data is exact in f32
};

enum class Fill : uint8_t {
  domain,          // as the case says
  small_integers,  // f32 inputs of the random domains hold whole numbers in [-8, 8]
};

/// Throws what the op throws for a case that must fail.
[[nodiscard]] CaseGraph build_case(const OpCase& op_case, double magnitude,
                                   Fill fill = Fill::domain);

}  // namespace snug
