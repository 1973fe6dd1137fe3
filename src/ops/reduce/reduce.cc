// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce/reduce.h"

#include <algorithm>

#include "base/index_vector.h"
#include "ops/elementwise/elementwise.h"
#include "ops/op_probes.h"
#include "ops/op_rules.h"
#include "ops/shape/shape.h"

namespace snug {
namespace {

// The sum of what is stored in 16 bits is f32, as sums over many elements are.
std::vector<TensorType> infer_reduce_sum(const InferArgs& args) {
  require_floating(args, 0, "x");
  const Shape& x = args.inputs[0].shape;
  const std::vector<int64_t>& axes = args.attrs.ints("axes");
  IndexVector<bool> is_reduced(x.size(), false);
  for (int64_t axis : axes) {
    const int64_t index = normalize_axis(axis, static_cast<int64_t>(x.size()), args.where);
    if (is_reduced[index])
      shape_error(args, "axes " + to_string(axes) + " name a dim of x " + to_string(x) + " twice");
    is_reduced[index] = true;
  }
  TensorType y{DType::f32, {}};
  for (size_t i = 0; i < x.size(); ++i) {
    if (!is_reduced[i]) y.shape.push_back(x[i]);
    if (is_reduced[i] && args.attrs.boolean("keep_dims")) y.shape.push_back(1);
  }
  return {std::move(y)};
}

std::vector<TensorType> infer_of_some(const InferArgs& args) {
  std::vector<TensorType> result = infer_reduce_sum(args);
  const Shape& x = args.inputs[0].shape;
  for (int64_t axis : args.attrs.ints("axes")) {
    const int64_t index = axis < 0 ? axis + static_cast<int64_t>(x.size()) : axis;
    if (x[index] == 0)
      shape_error(args, "there is nothing to reduce along an axis of x " + to_string(x));
  }
  return result;
}

std::vector<TensorType> infer_sum_squares(const InferArgs& args) {
  require_dtype(args, 0, DType::f32, "x");
  return {{DType::f32, {}}};
}

// A value of the output's shape, spread over x's shape.
ValueId spread(const VjpArgs& args, ValueId value) {
  const Shape& x = args.type(args.in(0)).shape;
  const Shape kept = reduced_shape(x, args.node.attrs.ints("axes"));
  if (args.type(value).shape != kept) value = reshape(args.builder, value, kept);
  return broadcast_to(args.builder, value, args.type(args.in(0)).shape);
}

std::vector<ValueId> vjp_reduce_sum(const VjpArgs& args) { return {spread(args, args.dy[0])}; }

std::vector<ValueId> vjp_reduce_mean(const VjpArgs& args) {
  const auto from = static_cast<double>(element_count(args.type(args.in(0))));
  const auto to = static_cast<double>(element_count(args.type(args.out(0))));
  return {spread(args, scale(args.builder, args.dy[0], from == 0 ? 0 : to / from))};
}

std::vector<ValueId> vjp_reduce_max(const VjpArgs& args) {
  GraphBuilder& b = args.builder;
  const Attrs& attrs = args.node.attrs;
  const ValueId is_maximum = cast(b, equal(b, args.in(0), spread(args, args.out(0))), DType::f32);
  const ValueId count = reduce_sum(b, is_maximum, attrs.ints("axes"), attrs.boolean("keep_dims"));
  return {mul(b, is_maximum, spread(args, div(b, args.dy[0], count)))};
}

std::vector<ValueId> vjp_sum_squares(const VjpArgs& args) {
  return {mul(args.builder, args.in(0), scale(args.builder, args.dy[0], 2))};
}

Cost cost_reduce(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], 1));
}
Cost cost_sum_squares(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], 2));
}

std::vector<RateProbe> column_probes() {
  return probes::few_and_many([](int64_t rows) {
    return RateProbe{{probes::matrix(rows)}, {{"axes", std::vector<int64_t>{0}}}};
  });
}
std::vector<RateProbe> square_probes() {
  std::vector<RateProbe> all = probes::of_matrices<1>();
  all.push_back({{probes::matrix(12288)}});  // more than address translation caches hold
  return all;
}

int row_flow_of_reduction(const RowFlowArgs& args) {
  const auto rank = static_cast<int64_t>(args.inputs[0].shape.size());
  const int own = args.axes[0];
  int before = 0;
  for (const int64_t each : args.attrs.ints("axes")) {
    const int64_t axis = normalize_axis(each, rank, "reduction");
    if (axis == own) return kCoupledRows;
    before += axis < own ? 1 : 0;
  }
  return args.attrs.boolean("keep_dims") ? own : own - before;
}

OpDef reduce_op(const char* name, InferFn infer, VjpFn vjp, Keeps keeps, Timing timing = {}) {
  return {.name = name,
          .inputs = std::vector<InputSpec>{"x"},
          .is_variadic = false,
          .outputs = std::vector<std::string>{"y"},
          .attrs = std::vector<AttrSpec>{required_attr("axes", std::vector<int64_t>{}),
                                         {"keep_dims", false}},
          .infer = std::move(infer),
          .gradient = Gradient(std::move(vjp)),
          .keeps = keeps,
          .cost = cost_reduce,
          .alias = never_in_place(),
          .timing = timing,
          .row_flow = row_flow_of_reduction,
          .precision = {Paint::deny}};
}

OpDef sum_squares_op() {
  OpDef op = reduce_op("sum_squares", infer_sum_squares, vjp_sum_squares, {.inputs = 1});
  op.attrs = std::vector<AttrSpec>{};
  op.row_flow = nullptr;
  op.cost = CostFn{cost_sum_squares};
  op.sparse_operand = SparseOperand{.rows = 0};
  op.timing = {.finds = Finds::unwarmed, .probes = square_probes};
  return op;
}

ValueId reduce(GraphBuilder& builder, const char* op, ValueId x, std::vector<int64_t> axes,
               bool keep_dims) {
  return builder.op1(op, {x}, {{"axes", std::move(axes)}, {"keep_dims", keep_dims}});
}

}  // namespace

Shape reduced_shape(const Shape& x, const std::vector<int64_t>& axes) {
  Shape shape = x;
  for (int64_t axis : axes) shape[axis < 0 ? axis + static_cast<int64_t>(x.size()) : axis] = 1;
  return shape;
}

std::span<const OpDef> reduce_ops() {
  static const OpDef ops[] = {
      reduce_op("reduce_sum", infer_reduce_sum, vjp_reduce_sum, {},
                {.finds = Finds::most, .probes = column_probes}),
      reduce_op("reduce_mean", infer_of_some, vjp_reduce_mean, {}, {.finds = Finds::most}),
      reduce_op("reduce_max", infer_of_some, vjp_reduce_max, {.inputs = 1, .outputs = 1}),
      sum_squares_op(),
  };
  return ops;
}

ValueId reduce_sum(GraphBuilder& builder, ValueId x, std::vector<int64_t> axes, bool keep_dims) {
  return reduce(builder, "reduce_sum", x, std::move(axes), keep_dims);
}
ValueId reduce_mean(GraphBuilder& builder, ValueId x, std::vector<int64_t> axes, bool keep_dims) {
  return reduce(builder, "reduce_mean", x, std::move(axes), keep_dims);
}
ValueId reduce_max(GraphBuilder& builder, ValueId x, std::vector<int64_t> axes, bool keep_dims) {
  return reduce(builder, "reduce_max", x, std::move(axes), keep_dims);
}
ValueId sum_squares(GraphBuilder& builder, ValueId x) { return builder.op1("sum_squares", {x}); }

}  // namespace snug
