// SPDX-License-Identifier: Apache-2.0
#include "ops/softmax/softmax.h"

#include "ops/op_probes.h"
#include "ops/op_rules.h"

namespace snug {
namespace {

void require_axis(const InferArgs& args) {
  const auto rank = static_cast<int64_t>(args.inputs[0].shape.size());
  (void)normalize_axis(args.attrs.int64("axis"), rank, args.where);
}

std::vector<TensorType> infer_softmax(const InferArgs& args) {
  require_floating(args, 0, "x");
  require_axis(args);
  return {args.inputs[0]};
}

std::vector<TensorType> infer_masked(const InferArgs& args) {
  require_floating(args, 0, "x");
  require_dtype(args, 1, DType::boolean, "mask");
  const Shape& x = args.inputs[0].shape;
  const Shape& mask = args.inputs[1].shape;
  if (x.empty()) shape_error(args, "x must have rank 1 or more");
  if (broadcast_shapes(x, mask, args.where) != x) {
    shape_error(args, "mask " + to_string(mask) + " does not broadcast to x " + to_string(x));
  }
  return {args.inputs[0]};
}

std::vector<TensorType> infer_softmax_grad(const InferArgs& args) {
  require_floating(args, 0, "y");
  require_dtype(args, 1, args.inputs[0].dtype, "dy");
  require_axis(args);
  require_shape(args, 1, args.inputs[0].shape, "dy");
  return {args.inputs[0]};
}

ValueId grad_node(const VjpArgs& args, int64_t axis) {
  return args.builder.op1("softmax_grad", {args.out(0), args.dy[0]}, {{"axis", axis}});
}
std::vector<ValueId> vjp_softmax(const VjpArgs& args) {
  return {grad_node(args, args.node.attrs.int64("axis"))};
}
std::vector<ValueId> vjp_masked(const VjpArgs& args) { return {grad_node(args, -1), kNone}; }

// Maximum, subtraction, exponential, sum, division.
Cost cost_softmax(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.outputs[0], 14));
}
Cost cost_softmax_grad(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.outputs[0], 4));
}

std::vector<RateProbe> masked_probes() {
  return probes::few_and_many([](int64_t rows) {
    return RateProbe{{probes::matrix(rows), probes::boolean({rows, probes::kWidth})}};
  });
}

int row_flow_of_softmax(const RowFlowArgs& args) {
  const auto rank = static_cast<int64_t>(args.inputs[0].shape.size());
  const int64_t axis = normalize_axis(args.attrs.int64("axis"), rank, "softmax");
  return axis == args.axes[0] ? kCoupledRows : args.axes[0];
}

int row_flow_of_masked(const RowFlowArgs& args) {
  const int axis = row_flow::elementwise(args);
  const bool is_last = axis + 1 == static_cast<int>(args.outputs[0].shape.size());
  return is_last ? kCoupledRows : axis;
}

}  // namespace

ValueId softmax(GraphBuilder& builder, ValueId x, int64_t axis) {
  return builder.op1("softmax", {x}, {{"axis", axis}});
}
ValueId masked_softmax(GraphBuilder& builder, ValueId x, ValueId mask) {
  return builder.op1("masked_softmax", {x, mask});
}

std::span<const OpDef> softmax_ops() {
  static const std::vector<AttrSpec> axis = {{"axis", int64_t{-1}}};
  static const OpDef ops[] = {
      {.name = "softmax",
       .inputs = std::vector<InputSpec>{"x"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y"},
       .attrs = axis,
       .infer = infer_softmax,
       .gradient = Gradient(vjp_softmax),
       .keeps = Keeps{.outputs = 0b1},
       .cost = cost_softmax,
       .alias = may_overwrite({{0, 0}}),
       .timing = {.probes = probes::of_matrices<1>},
       .row_flow = row_flow_of_softmax,
       .precision = {Paint::infer}},
      {.name = "masked_softmax",
       .inputs = std::vector<InputSpec>{"x", "mask"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_masked,
       .gradient = Gradient(vjp_masked),
       .keeps = Keeps{.outputs = 0b1},
       .cost = cost_softmax,
       .alias = may_overwrite({{0, 0}}),
       .timing = {.probes = masked_probes},
       .row_flow = row_flow_of_masked,
       .precision = {Paint::infer}},
      {.name = "softmax_grad",
       .inputs = std::vector<InputSpec>{"y", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dx"},
       .attrs = axis,
       .infer = infer_softmax_grad,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_softmax_grad,
       .alias = may_overwrite({{0, 1}, {0, 0}}),
       .timing = {.probes = probes::of_matrices<2>}},
  };
  return ops;
}

}  // namespace snug
