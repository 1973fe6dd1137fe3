// SPDX-License-Identifier: Apache-2.0
// What networks of tests end in.
#pragma once

#include "compile/value_names.h"
#include "graph/builder.h"

namespace snug::compile {

/// The loss of y (B, ...) against the input "target".
[[nodiscard]] inline ValueId squared_error(GraphBuilder& builder, ValueId y) {
  const Shape shape = builder.shape(y);
  const ValueId target = builder.input("target", {DType::f32, shape});
  const ValueId weights = builder.input("row_weights", {DType::f32, {shape[0]}});
  const ValueId inverse = builder.input("inv_total", {DType::f32, {}});
  const ValueId loss = builder.op1("mean_squared_error", {y, target, weights, inverse});
  builder.mark_output(loss, kLossName);
  return loss;
}

}  // namespace snug::compile
