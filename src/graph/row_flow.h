// SPDX-License-Identifier: Apache-2.0
// How the rows of a batch go through an op: by which axis of its output they are told apart, if
// each of them depends on its own row only. That is what lets a batch be split without another
// result. The rows are the outermost factor of their axis, so (rows * T, C) still has them at axis
// 0.
#pragma once

#include <cstdint>
#include <span>

#include "graph/input_types.h"
#include "snug/attrs.h"
#include "snug/types.h"

namespace snug {

inline constexpr int kNoRows = -1;       // the same for every row: weights, constants
inline constexpr int kCoupledRows = -2;  // a row may depend on other rows

struct RowFlowArgs {
  const InputTypes& inputs;
  std::span<const TensorType> outputs;
  std::span<const int> axes;  // of the rows, by input: >= 0 or kNoRows, one at least >= 0
  const Attrs& attrs;
  int64_t rows = 0;
};
/// The axis of the rows in every output, or kCoupledRows.
using RowFlowFn = int (*)(const RowFlowArgs&);

namespace row_flow {

/// Operands broadcast as numpy's.
[[nodiscard]] int elementwise(const RowFlowArgs& args);
/// Each index of axis 0 by itself; every input may have rows.
[[nodiscard]] int leading(const RowFlowArgs& args);
/// The same where axis 0 is the rows and nothing else, since random numbers follow it.
[[nodiscard]] int leading_rows_alone(const RowFlowArgs& args);
/// The first input has rows at axis 0, the others have none.
[[nodiscard]] int leading_of_first(const RowFlowArgs& args);
/// The first input has rows at any axis but the last, over which the op works.
[[nodiscard]] int all_but_last(const RowFlowArgs& args);

}  // namespace row_flow
}  // namespace snug
