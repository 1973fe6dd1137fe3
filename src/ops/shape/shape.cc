// SPDX-License-Identifier: Apache-2.0
#include "ops/shape/shape.h"

#include <algorithm>

#include "base/index_vector.h"
#include "ops/op_probes.h"
#include "ops/op_rules.h"

namespace snug {
namespace {

int64_t rank_of(const TensorType& type) { return static_cast<int64_t>(type.shape.size()); }

int64_t axis_of_shape(const InferArgs& args) {
  return normalize_axis(args.attrs.int64("axis"), rank_of(args.inputs[0]), args.where);
}
int64_t axis_of_shape(const VjpArgs& args) {
  return normalize_axis(args.node.attrs.int64("axis"), rank_of(args.type(args.in(0))), "axis");
}

std::vector<TensorType> infer_reshape(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  Shape shape = args.attrs.ints("shape");
  const std::string change = to_string(x.shape) + " to " + to_string(shape);
  auto open = shape.end();
  int64_t known = 1;
  for (auto dim = shape.begin(); dim != shape.end(); ++dim) {
    if (*dim == -1) {
      if (open != shape.end())
        shape_error(args, "cannot reshape " + change + ": more than one dim is -1");
      open = dim;
    } else if (*dim < 0 || __builtin_mul_overflow(known, *dim, &known)) {
      shape_error(args, "cannot reshape " + change + ": a dim is out of range");
    }
  }
  const int64_t count = element_count(x);
  if (open != shape.end()) {
    if (known == 0 || count % known != 0) {
      shape_error(args, "cannot reshape " + change + ": no size fits the dim that is -1");
    }
    *open = count / known;
    known = count;
  }
  if (known != count) {
    shape_error(args, "cannot reshape " + change + ": " + std::to_string(count) + " and " +
                          std::to_string(known) + " elements");
  }
  return {{x.dtype, std::move(shape)}};
}

std::vector<TensorType> infer_transpose(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  const std::vector<int64_t>& perm = args.attrs.ints("perm");
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool is_permutation = sorted.size() == x.shape.size();
  for (size_t i = 0; is_permutation && i < sorted.size(); ++i)
    is_permutation = sorted[i] == static_cast<int64_t>(i);
  if (!is_permutation) {
    shape_error(args, "perm " + to_string(perm) + " is not an order of the " +
                          std::to_string(x.shape.size()) + " dims of x " + to_string(x.shape));
  }
  TensorType y{x.dtype, {}};
  for (int64_t from : perm) y.shape.push_back(x.shape[from]);
  return {std::move(y)};
}

std::vector<TensorType> infer_slice(const InferArgs& args) {
  TensorType y = args.inputs[0];
  const int64_t axis = axis_of_shape(args);
  const int64_t start = args.attrs.int64("start");
  const int64_t stop = args.attrs.int64("stop");
  if (start < 0 || stop < start || stop > y.shape[axis]) {
    shape_error(args, "[" + std::to_string(start) + ", " + std::to_string(stop) +
                          ") is not a part of axis " + std::to_string(axis) + " of x " +
                          to_string(y.shape));
  }
  y.shape[axis] = stop - start;
  return {std::move(y)};
}

std::vector<TensorType> infer_pad(const InferArgs& args) {
  TensorType y = args.inputs[0];
  int64_t& dim = y.shape[axis_of_shape(args)];
  const int64_t before = args.attrs.int64("before");
  const int64_t after = args.attrs.int64("after");
  if (before < 0 || after < 0 || __builtin_add_overflow(dim, before, &dim) ||
      __builtin_add_overflow(dim, after, &dim)) {
    shape_error(args, "padding of " + std::to_string(before) + " and " + std::to_string(after) +
                          " is out of range");
  }
  (void)element_count(y);
  return {std::move(y)};
}

std::vector<TensorType> infer_concat(const InferArgs& args) {
  TensorType y = args.inputs[0];
  const int64_t axis = axis_of_shape(args);
  for (size_t i = 1; i < args.inputs.size(); ++i) {
    TensorType part = args.inputs[i];
    const std::string message = "parts " + to_string(args.inputs[0]) + " and " + to_string(part) +
                                " differ in more than axis " + std::to_string(axis);
    if (part.shape.size() != y.shape.size()) shape_error(args, message);
    const int64_t dim = part.shape[axis];
    part.shape[axis] = y.shape[axis];
    if (part != y) shape_error(args, message);
    if (__builtin_add_overflow(y.shape[axis], dim, &y.shape[axis]))
      shape_error(args, "the result is too large");
  }
  (void)element_count(y);
  return {std::move(y)};
}

void check_broadcast(const InferArgs& args, const Shape& from, const Shape& to) {
  const bool has_negative =
      std::any_of(to.begin(), to.end(), [](int64_t dim) { return dim < 0; }) ||
      std::any_of(from.begin(), from.end(), [](int64_t dim) { return dim < 0; });
  if (has_negative || from.size() > to.size() || broadcast_shapes(from, to, args.where) != to) {
    shape_error(args, to_string(from) + " does not broadcast to " + to_string(to));
  }
}

std::vector<TensorType> infer_broadcast_to(const InferArgs& args) {
  TensorType y{args.inputs[0].dtype, args.attrs.ints("shape")};
  check_broadcast(args, args.inputs[0].shape, y.shape);
  (void)element_count(y);
  return {std::move(y)};
}

std::vector<TensorType> infer_sum_to(const InferArgs& args) {
  require_floating(args, 0, "x");  // a sum: f32
  TensorType y{DType::f32, args.attrs.ints("shape")};
  check_broadcast(args, y.shape, args.inputs[0].shape);
  return {std::move(y)};
}

std::vector<ValueId> vjp_reshape(const VjpArgs& args) {
  return {reshape(args.builder, args.dy[0], args.type(args.in(0)).shape)};
}

std::vector<ValueId> vjp_transpose(const VjpArgs& args) {
  const std::vector<int64_t>& perm = args.node.attrs.ints("perm");
  IndexVector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int64_t>(i);
  return {transpose(args.builder, args.dy[0], inverse)};
}

std::vector<ValueId> vjp_slice(const VjpArgs& args) {
  const int64_t axis = axis_of_shape(args);
  const Attrs& attrs = args.node.attrs;
  const int64_t dim = args.type(args.in(0)).shape[axis];
  return {pad(args.builder, args.dy[0], axis, attrs.int64("start"), dim - attrs.int64("stop"))};
}

std::vector<ValueId> vjp_pad(const VjpArgs& args) {
  const int64_t axis = axis_of_shape(args);
  const int64_t before = args.node.attrs.int64("before");
  const int64_t dim = args.type(args.in(0)).shape[axis];
  return {slice(args.builder, args.dy[0], axis, before, before + dim)};
}

std::vector<ValueId> vjp_concat(const VjpArgs& args) {
  const int64_t axis = axis_of_shape(args);
  std::vector<ValueId> result(args.node.inputs.size(), kNone);
  int64_t start = 0;
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t stop = start + args.type(args.in(i)).shape[axis];
    if (args.wants[i]) result[i] = slice(args.builder, args.dy[0], axis, start, stop);
    start = stop;
  }
  return result;
}

std::vector<ValueId> vjp_broadcast_to(const VjpArgs& args) {
  return {sum_to(args.builder, args.dy[0], args.type(args.in(0)).shape)};
}

std::vector<ValueId> vjp_sum_to(const VjpArgs& args) {
  return {broadcast_to(args.builder, args.dy[0], args.type(args.in(0)).shape)};
}

Cost cost_move(const CostArgs& args) { return streaming_cost(args, 0); }
Cost cost_view(const CostArgs&) { return {}; }
Cost cost_slice(const CostArgs& args) {
  const auto bytes = static_cast<double>(byte_count(args.outputs[0]));
  // A start for each stretch of memory.
  const Shape& shape = args.outputs[0].shape;
  const int64_t axis =
      normalize_axis(args.attrs.int64("axis"), static_cast<int64_t>(shape.size()), "slice");
  double stretches = 1;
  for (int64_t i = 0; i < axis; ++i) stretches *= static_cast<double>(shape[i]);
  return {.flops = stretches, .bytes_read = bytes, .bytes_written = bytes};
}
Cost cost_shape_sum(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], 1));
}

std::string kind_of_transpose(const CostArgs& args) {
  const Ints& order = args.attrs.ints("perm");
  const bool keeps_rows = order.empty() || order.back() + 1 == static_cast<int64_t>(order.size());
  return keeps_rows ? "transpose" : "transpose.across";
}
std::vector<RateProbe> transpose_probes() {
  constexpr int64_t kPart = probes::kWidth / 4;
  std::vector<RateProbe> all = probes::few_and_many([](int64_t rows) {
    return RateProbe{{probes::f32({rows / 16, 16, 4, kPart})}, {{"perm", Ints{0, 2, 1, 3}}}};
  });
  probes::append(
      probes::few_and_many([](int64_t rows) {
        return RateProbe{{probes::f32({rows / 16, 8, 8, kPart})}, {{"perm", Ints{0, 3, 1, 2}}}};
      }),
      all);
  return all;
}
// Long pieces and short ones.
std::vector<RateProbe> slice_probes() {
  const auto half_of = [](const TensorType& x) {
    return RateProbe{{x},
                     {{"axis", int64_t{1}}, {"start", int64_t{0}}, {"stop", x.shape[1] / 2}},
                     RateBasis::both};
  };
  std::vector<RateProbe> all =
      probes::few_and_many([&](int64_t rows) { return half_of(probes::matrix(rows)); });
  probes::append(probes::few_and_many([&](int64_t rows) {
                   return half_of(probes::f32({8 * rows, 32}));
                 }),
                 all);
  return all;
}
std::vector<RateProbe> pad_probes() {
  return probes::few_and_many([](int64_t rows) {
    return RateProbe{{probes::matrix(rows)},
                     {{"axis", int64_t{1}}, {"before", int64_t{0}}, {"after", probes::kWidth}}};
  });
}
std::vector<RateProbe> concat_probes() {
  return probes::few_and_many([](int64_t rows) {
    return RateProbe{{probes::matrix(rows), probes::matrix(rows)}, {{"axis", int64_t{1}}}};
  });
}
std::vector<RateProbe> broadcast_probes() {
  return probes::few_and_many([](int64_t rows) {
    return RateProbe{{probes::f32({probes::kWidth})}, {{"shape", Ints{rows, probes::kWidth}}}};
  });
}
std::vector<RateProbe> shape_sum_probes() {
  return probes::few_and_many([](int64_t rows) {
    return RateProbe{{probes::matrix(rows)}, {{"shape", Ints{probes::kWidth}}}};
  });
}

const Shape& in_shape(const RowFlowArgs& args) { return args.inputs[0].shape; }
const Shape& out_shape(const RowFlowArgs& args) { return args.outputs[0].shape; }

// The axis behind as many elements as before, if whole rows are still its outermost factor.
int row_flow_of_reshape(const RowFlowArgs& args) {
  int64_t before = 1;
  for (int i = 0; i < args.axes[0]; ++i) before *= in_shape(args)[i];
  int64_t passed = 1;
  for (size_t i = 0; i < out_shape(args).size(); ++i) {
    if (passed == before && out_shape(args)[i] % args.rows == 0 && out_shape(args)[i] > 0)
      return static_cast<int>(i);
    passed *= out_shape(args)[i];
  }
  return kCoupledRows;
}
int row_flow_of_transpose(const RowFlowArgs& args) {
  const std::vector<int64_t>& order = args.attrs.ints("perm");
  const auto rank = static_cast<int64_t>(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (normalize_axis(order[i], rank, "transpose") == args.axes[0]) return static_cast<int>(i);
  }
  return kCoupledRows;
}
// What works along one axis leaves the rows alone where theirs is another one.
int row_flow_beside_axis(const RowFlowArgs& args) {
  const auto rank = static_cast<int64_t>(out_shape(args).size());
  const int64_t axis = normalize_axis(args.attrs.int64("axis"), rank, "axis");
  int found = kNoRows;
  for (const int own : args.axes) {
    if (own < 0) continue;
    if (own == axis || (found >= 0 && found != own)) return kCoupledRows;
    found = own;
  }
  return found;
}
int row_flow_of_sum_to(const RowFlowArgs& args) {
  const int own = args.axes[0];
  const int axis = own - static_cast<int>(in_shape(args).size() - out_shape(args).size());
  if (axis < 0) return kCoupledRows;
  const bool is_kept = in_shape(args)[own] == out_shape(args)[axis];
  return is_kept ? axis : kCoupledRows;
}

OpDef move_op(const char* name, std::vector<AttrSpec> attrs, InferFn infer, VjpFn vjp, CostFn cost,
              RowFlowFn row_flow, Timing timing) {
  return {.name = name,
          .inputs = std::vector<InputSpec>{"x"},
          .is_variadic = false,
          .outputs = std::vector<std::string>{"y"},
          .attrs = std::move(attrs),
          .infer = std::move(infer),
          .gradient = Gradient(std::move(vjp)),
          .keeps = Keeps{},
          .cost = std::move(cost),
          .alias = never_in_place(),
          .timing = timing,
          .row_flow = row_flow,
          .precision = {Paint::clear}};
}

OpDef reshape_op(const AttrSpec& shape) {
  OpDef op =
      move_op("reshape", {shape}, infer_reshape, vjp_reshape, cost_view, row_flow_of_reshape, {});
  op.alias = view_of_input();
  return op;
}
// The first rows of a table are taken: positions.
std::optional<size_t> table_of_slice(const Attrs& attrs) {
  return attrs.int64("axis") == 0 ? std::optional<size_t>(0) : std::nullopt;
}
OpDef slice_op(const AttrSpec& axis, const AttrSpec& start, const AttrSpec& stop) {
  OpDef op =
      move_op("slice", {axis, neutral(start), neutral(stop)}, infer_slice, vjp_slice, cost_slice,
              row_flow_beside_axis, {.finds = Finds::unwarmed, .probes = slice_probes});
  op.table_operand = table_of_slice;
  return op;
}
OpDef broadcast_op(const AttrSpec& shape) {
  OpDef op = move_op("broadcast_to", {shape}, infer_broadcast_to, vjp_broadcast_to, cost_move,
                     row_flow::elementwise, {.probes = broadcast_probes});
  op.repeats = true;
  return op;
}
OpDef sum_to_op(const AttrSpec& shape) {
  OpDef op = move_op("sum_to", {shape}, infer_sum_to, vjp_sum_to, cost_shape_sum,
                     row_flow_of_sum_to, {.finds = Finds::most, .probes = shape_sum_probes});
  op.precision = {Paint::deny};
  return op;
}
OpDef concat_op(const AttrSpec& axis) {
  OpDef op = move_op("concat", {axis}, infer_concat, vjp_concat, cost_move, row_flow_beside_axis,
                     {.probes = concat_probes});
  op.is_variadic = true;
  return op;
}

}  // namespace

std::span<const OpDef> shape_ops() {
  static const auto whole = [](const char* name) { return required_attr(name, int64_t{0}); };
  static const auto ints = [](const char* name) {
    return required_attr(name, std::vector<int64_t>{});
  };
  static const AttrSpec shape = with_role(AttrRole::shape, ints("shape"));
  static const OpDef ops[] = {
      reshape_op(shape),
      move_op("transpose", {ints("perm")}, infer_transpose, vjp_transpose, cost_move,
              row_flow_of_transpose, {.probes = transpose_probes, .kind = kind_of_transpose}),
      slice_op(whole("axis"), whole("start"), whole("stop")),
      move_op("pad", {whole("axis"), whole("before"), whole("after")}, infer_pad, vjp_pad,
              cost_move, row_flow_beside_axis, {.probes = pad_probes}),
      concat_op(whole("axis")),
      broadcast_op(shape),
      sum_to_op(shape),
  };
  return ops;
}

ValueId reshape(GraphBuilder& builder, ValueId x, const Shape& shape) {
  return builder.op1("reshape", {x}, {{"shape", shape}});
}
ValueId transpose(GraphBuilder& builder, ValueId x, const std::vector<int64_t>& perm) {
  return builder.op1("transpose", {x}, {{"perm", perm}});
}
ValueId slice(GraphBuilder& builder, ValueId x, int64_t axis, int64_t start, int64_t stop) {
  return builder.op1("slice", {x}, {{"axis", axis}, {"start", start}, {"stop", stop}});
}
ValueId pad(GraphBuilder& builder, ValueId x, int64_t axis, int64_t before, int64_t after) {
  return builder.op1("pad", {x}, {{"axis", axis}, {"before", before}, {"after", after}});
}
ValueId concat(GraphBuilder& builder, std::span<const ValueId> parts, int64_t axis) {
  return builder.op1("concat", std::vector<ValueId>(parts.begin(), parts.end()), {{"axis", axis}});
}
ValueId broadcast_to(GraphBuilder& builder, ValueId x, const Shape& shape) {
  return builder.shape(x) == shape ? x : builder.op1("broadcast_to", {x}, {{"shape", shape}});
}
ValueId sum_to(GraphBuilder& builder, ValueId x, const Shape& shape) {
  return builder.shape(x) == shape ? x : builder.op1("sum_to", {x}, {{"shape", shape}});
}

}  // namespace snug
