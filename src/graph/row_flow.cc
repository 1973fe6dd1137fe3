// SPDX-License-Identifier: Apache-2.0
#include "graph/row_flow.h"

namespace snug::row_flow {
namespace {

int rank_of(const TensorType& type) { return static_cast<int>(type.shape.size()); }

int64_t dim_of(const TensorType& type, int axis) { return type.shape[axis]; }

}  // namespace

int elementwise(const RowFlowArgs& args) {
  int found = kNoRows;
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    if (args.axes[i] < 0) continue;
    const int axis = args.axes[i] + rank_of(args.outputs[0]) - rank_of(args.inputs[i]);
    if (found != kNoRows && found != axis) return kCoupledRows;
    if (dim_of(args.inputs[i], args.axes[i]) != dim_of(args.outputs[0], axis)) return kCoupledRows;
    found = axis;
  }
  return found;
}

int leading(const RowFlowArgs& args) {
  for (const int axis : args.axes) {
    if (axis > 0) return kCoupledRows;
  }
  return 0;
}

int leading_rows_alone(const RowFlowArgs& args) {
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    if (args.axes[i] >= 0 && (args.axes[i] > 0 || dim_of(args.inputs[i], 0) != args.rows))
      return kCoupledRows;
  }
  return 0;
}

int leading_of_first(const RowFlowArgs& args) {
  for (size_t i = 1; i < args.axes.size(); ++i) {
    if (args.axes[i] >= 0) return kCoupledRows;
  }
  return args.axes[0] == 0 ? 0 : kCoupledRows;
}

int all_but_last(const RowFlowArgs& args) {
  for (size_t i = 1; i < args.axes.size(); ++i) {
    if (args.axes[i] >= 0) return kCoupledRows;
  }
  return args.axes[0] + 1 < rank_of(args.inputs[0]) ? args.axes[0] : kCoupledRows;
}

}  // namespace snug::row_flow
