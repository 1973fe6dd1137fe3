// SPDX-License-Identifier: Apache-2.0
// Definitions and builders; the gradient rules are in elementwise_vjp.cc.
#include "ops/elementwise/elementwise.h"

#include <cmath>

#include "base/numbers.h"
#include "ops/elementwise/elementwise_vjp.h"
#include "ops/gelu.h"
#include "ops/op_probes.h"
#include "ops/op_rules.h"
#include "snug/error.h"

namespace snug {
namespace {

constexpr double kTranscendentalFlops = 10;

std::vector<TensorType> infer_unary(const InferArgs& args) {
  require_floating(args, 0, "x");
  return {args.inputs[0]};
}

std::vector<TensorType> infer_binary(const InferArgs& args) {
  require_floating(args, 0, "a");
  const DType dtype = args.inputs[0].dtype;
  require_dtype(args, 1, dtype, "b");
  return {{dtype, broadcast_shapes(args.inputs[0].shape, args.inputs[1].shape, args.where)}};
}

std::vector<TensorType> infer_comparison(const InferArgs& args) {
  const TensorType& a = args.inputs[0];
  const TensorType& b = args.inputs[1];
  if (a.dtype != b.dtype || (a.dtype != DType::f32 && a.dtype != DType::i32)) {
    shape_error(
        args, "a and b must both be f32 or both i32, not " + to_string(a) + " and " + to_string(b));
  }
  return {{DType::boolean, broadcast_shapes(a.shape, b.shape, args.where)}};
}

std::vector<TensorType> infer_where(const InferArgs& args) {
  require_dtype(args, 0, DType::boolean, "condition");
  const TensorType& a = args.inputs[1];
  const TensorType& b = args.inputs[2];
  if (a.dtype != b.dtype) {
    shape_error(args,
                "a and b must have one element type, not " + to_string(a) + " and " + to_string(b));
  }
  const Shape sides = broadcast_shapes(a.shape, b.shape, args.where);
  return {{a.dtype, broadcast_shapes(args.inputs[0].shape, sides, args.where)}};
}

std::vector<TensorType> infer_gelu(const InferArgs& args) {
  check_approximation(args);
  return infer_unary(args);
}

std::vector<TensorType> infer_elementwise_grad(const InferArgs& args) {
  require_floating(args, 0, "x");
  require_dtype(args, 1, args.inputs[0].dtype, "dy");
  require_shape(args, 1, args.inputs[0].shape, "dy");
  return {args.inputs[0]};
}

std::vector<TensorType> infer_gelu_grad(const InferArgs& args) {
  check_approximation(args);
  return infer_elementwise_grad(args);
}

std::vector<TensorType> infer_cast(const InferArgs& args) {
  if (args.inputs[0].dtype == DType::i64) shape_error(args, "x must not be i64");
  const std::string& to = args.attrs.text("to");
  const std::optional<DType> dtype = dtype_of(to);
  if (!dtype || *dtype == DType::i64)
    throw Error(ErrorCode::invalid_graph, args.where,
                "to must be f32, bf16, f16, i32 or bool, not '" + to + "'");
  return {{*dtype, args.inputs[0].shape}};
}

void require_in_f32(const InferArgs& args, const char* name) {
  const double value = args.attrs.real(name);
  if (std::isfinite(value) && !std::isfinite(static_cast<float>(value)))
    throw Error(ErrorCode::invalid_graph, args.where,
                std::string(name) + " " + number_text(value) + " is more than f32 holds",
                "give one within 3.4e38 of 0");
}

std::vector<TensorType> infer_scale(const InferArgs& args) {
  require_in_f32(args, "factor");
  return infer_unary(args);
}

std::vector<TensorType> infer_fill(const InferArgs& args) {
  const Shape& shape = args.attrs.ints("shape");
  for (int64_t dim : shape) {
    if (dim < 0) shape_error(args, "shape " + to_string(shape) + " has a negative dim");
  }
  require_in_f32(args, "value");
  TensorType type{DType::f32, shape};
  (void)element_count(type);
  return {std::move(type)};
}

template <int kFlops>
Cost cost_per_element(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.outputs[0], kFlops));
}
constexpr auto* kCheap = &cost_per_element<1>;
constexpr auto* kTranscendental = &cost_per_element<static_cast<int>(kTranscendentalFlops)>;

std::string kind_of_binary(const char* name, const CostArgs& args) {
  const bool is_plain = args.inputs[0].shape == args.inputs[1].shape;
  return is_plain ? name : std::string(name) + ".broadcast";
}
// Operands of one shape, with a column and with a row.
std::vector<RateProbe> binary_probes() {
  using probes::f32;
  using probes::kWidth;
  using probes::matrix;
  std::vector<RateProbe> all = probes::of_matrices<2>();
  const auto add = [&](const auto& probe_of_rows) {
    probes::append(probes::few_and_many(probe_of_rows), all);
  };
  add([](int64_t rows) { return RateProbe{{matrix(rows), f32({rows, 1})}}; });
  add([](int64_t rows) { return RateProbe{{matrix(rows), f32({kWidth})}}; });
  return all;
}
std::vector<RateProbe> cast_probes() {
  return probes::few_and_many([](int64_t rows) {
    return RateProbe{{probes::i32({rows, probes::kWidth})}, {{"to", std::string("f32")}}};
  });
}
std::vector<RateProbe> scale_probes() {
  return probes::few_and_many([](int64_t rows) {
    return RateProbe{{probes::matrix(rows)}, {{"factor", 0.5}}};
  });
}
std::vector<RateProbe> where_probes() {
  return probes::few_and_many([](int64_t rows) {
    return RateProbe{
        {probes::boolean({rows, probes::kWidth}), probes::matrix(rows), probes::matrix(rows)}};
  });
}

OpDef unary(const char* name, VjpFn vjp, Keeps keeps, CostFn cost, Paint paint = Paint::infer) {
  return {.name = name,
          .inputs = std::vector<InputSpec>{"x"},
          .is_variadic = false,
          .outputs = std::vector<std::string>{"y"},
          .attrs = std::vector<AttrSpec>{},
          .infer = infer_unary,
          .gradient = Gradient(std::move(vjp)),
          .keeps = keeps,
          .cost = std::move(cost),
          .alias = may_overwrite({{0, 0}}),
          .timing = {.probes = probes::of_matrices<1>},
          .row_flow = row_flow::elementwise,
          .precision = {paint}};
}

OpDef binary(const char* name, VjpFn vjp, Keeps keeps, std::string (*kind)(const CostArgs&)) {
  return {.name = name,
          .inputs = std::vector<InputSpec>{"a", "b"},
          .is_variadic = false,
          .outputs = std::vector<std::string>{"y"},
          .attrs = std::vector<AttrSpec>{},
          .infer = infer_binary,
          .gradient = Gradient(std::move(vjp)),
          .keeps = keeps,
          .cost = kCheap,
          .alias = may_overwrite({{0, 0}, {0, 1}}),
          .timing = {.probes = binary_probes, .kind = kind},
          .row_flow = row_flow::elementwise,
          .precision = {Paint::infer}};
}

OpDef comparison(const char* name) {
  return {.name = name,
          .inputs = std::vector<InputSpec>{"a", "b"},
          .is_variadic = false,
          .outputs = std::vector<std::string>{"y"},
          .attrs = std::vector<AttrSpec>{},
          .infer = infer_comparison,
          .gradient = not_differentiable("its result is true or false"),
          .keeps = Keeps{},
          .cost = kCheap,
          .alias = never_in_place(),
          .row_flow = row_flow::elementwise};
}

OpDef add_op() {
  OpDef op = binary("add", elementwise_vjp::add, {},
                    [](const CostArgs& args) { return kind_of_binary("add", args); });
  op.timing.is_typical = true;
  return op;
}
OpDef greater_op() {
  OpDef op = comparison("greater");
  op.timing.probes = probes::of_matrices<2>;
  return op;
}
OpDef gelu_op() {
  OpDef op = unary("gelu", elementwise_vjp::gelu, {.inputs = 1}, cost_per_element<20>);
  op.attrs = std::vector<AttrSpec>{{"approximate", std::string("none")}};
  op.infer = InferFn{infer_gelu};
  return op;
}
// The gradient of a unary op from one saved tensor and dy.
OpDef grad_op(const char* name, const char* saved, CostFn cost) {
  return {.name = name,
          .inputs = std::vector<InputSpec>{saved, "dy"},
          .is_variadic = false,
          .outputs = std::vector<std::string>{"dx"},
          .attrs = std::vector<AttrSpec>{},
          .infer = infer_elementwise_grad,
          .gradient = not_differentiable("second derivatives are not built"),
          .keeps = Keeps{},
          .cost = std::move(cost),
          .alias = may_overwrite({{0, 0}, {0, 1}}),
          .timing = {.probes = probes::of_matrices<2>}};
}
OpDef gelu_grad_op() {
  OpDef op = grad_op("gelu_grad", "x", cost_per_element<30>);
  op.attrs = std::vector<AttrSpec>{{"approximate", std::string("none")}};
  op.infer = InferFn{infer_gelu_grad};
  return op;
}
OpDef scale_op() {
  OpDef op = unary("scale", elementwise_vjp::scale, {}, kCheap);
  op.attrs = std::vector<AttrSpec>{required_attr("factor", 1.0)};
  op.infer = InferFn{infer_scale};
  op.timing.probes = scale_probes;
  return op;
}
OpDef where_op() {
  return {.name = "where",
          .inputs = std::vector<InputSpec>{"condition", "a", "b"},
          .is_variadic = false,
          .outputs = std::vector<std::string>{"y"},
          .attrs = std::vector<AttrSpec>{},
          .infer = infer_where,
          .gradient = Gradient(elementwise_vjp::where),
          .keeps = Keeps{.inputs = 1},
          .cost = kCheap,
          .alias = may_overwrite({{0, 1}, {0, 2}}),
          .timing = {.probes = where_probes},
          .row_flow = row_flow::elementwise,
          .precision = {Paint::clear}};
}
OpDef cast_op() {
  OpDef op = unary("cast", elementwise_vjp::cast, {}, kCheap, Paint::none);
  op.attrs = std::vector<AttrSpec>{required_attr("to", std::string("f32"))};
  op.infer = InferFn{infer_cast};
  op.timing.probes = cast_probes;
  op.is_conversion = true;
  return op;
}
OpDef fill_op() {
  return {.name = "fill",
          .inputs = std::vector<InputSpec>{},
          .is_variadic = false,
          .outputs = std::vector<std::string>{"y"},
          .attrs = std::vector<AttrSpec>{required_attr("value", 0.0),
                                         with_role(AttrRole::shape,
                                                   required_attr("shape", std::vector<int64_t>{}))},
          .infer = infer_fill,
          .gradient = not_differentiable("it has no inputs"),
          .keeps = Keeps{},
          .cost = CostFn{cost_per_element<0>},
          .alias = never_in_place(),
          .repeats = true};
}

}  // namespace

std::span<const OpDef> elementwise_ops() {
  namespace vjp = elementwise_vjp;
  constexpr Keeps kNothing{};
  constexpr Keeps kInput{.inputs = 1};
  constexpr Keeps kOutput{.outputs = 1};
  static const OpDef ops[] = {
      add_op(),
      binary("sub", vjp::sub, kNothing,
             [](const CostArgs& args) { return kind_of_binary("sub", args); }),
      binary("mul", vjp::mul, {.inputs = 0b11},
             [](const CostArgs& args) { return kind_of_binary("mul", args); }),
      binary("div", vjp::div, {.inputs = 0b10, .outputs = 1},
             [](const CostArgs& args) { return kind_of_binary("div", args); }),
      unary("neg", vjp::neg, kNothing, kCheap),
      unary("exp", vjp::exp, kOutput, kTranscendental, Paint::deny),
      unary("log", vjp::log, kInput, kTranscendental, Paint::deny),
      unary("sqrt", vjp::sqrt, kOutput, kTranscendental),
      unary("rsqrt", vjp::rsqrt, kOutput, kTranscendental, Paint::deny),
      unary("tanh", vjp::tanh, kOutput, kTranscendental),
      unary("erf", vjp::erf, kInput, kTranscendental),
      unary("sigmoid", vjp::sigmoid, kOutput, kTranscendental),
      unary("relu", vjp::relu, kOutput, kCheap, Paint::clear),
      grad_op("relu_grad", "y", kCheap),
      gelu_op(),
      gelu_grad_op(),
      scale_op(),
      where_op(),
      cast_op(),
      comparison("equal"),
      comparison("not_equal"),
      comparison("less"),
      comparison("less_equal"),
      greater_op(),
      comparison("greater_equal"),
      fill_op(),
  };
  return ops;
}

ValueId add(GraphBuilder& builder, ValueId a, ValueId b) { return builder.op1("add", {a, b}); }
ValueId sub(GraphBuilder& builder, ValueId a, ValueId b) { return builder.op1("sub", {a, b}); }
ValueId mul(GraphBuilder& builder, ValueId a, ValueId b) { return builder.op1("mul", {a, b}); }
ValueId div(GraphBuilder& builder, ValueId a, ValueId b) { return builder.op1("div", {a, b}); }
ValueId neg(GraphBuilder& builder, ValueId x) { return builder.op1("neg", {x}); }
ValueId exp(GraphBuilder& builder, ValueId x) { return builder.op1("exp", {x}); }
ValueId log(GraphBuilder& builder, ValueId x) { return builder.op1("log", {x}); }
ValueId sqrt(GraphBuilder& builder, ValueId x) { return builder.op1("sqrt", {x}); }
ValueId rsqrt(GraphBuilder& builder, ValueId x) { return builder.op1("rsqrt", {x}); }
ValueId tanh(GraphBuilder& builder, ValueId x) { return builder.op1("tanh", {x}); }
ValueId erf(GraphBuilder& builder, ValueId x) { return builder.op1("erf", {x}); }
ValueId sigmoid(GraphBuilder& builder, ValueId x) { return builder.op1("sigmoid", {x}); }
ValueId relu(GraphBuilder& builder, ValueId x) { return builder.op1("relu", {x}); }
ValueId gelu(GraphBuilder& builder, ValueId x, const std::string& approximate) {
  return builder.op1("gelu", {x}, {{"approximate", approximate}});
}
ValueId gelu_grad(GraphBuilder& builder, ValueId x, ValueId dy, const std::string& approximate) {
  return builder.op1("gelu_grad", {x, dy}, {{"approximate", approximate}});
}
ValueId relu_grad(GraphBuilder& builder, ValueId y, ValueId dy) {
  return builder.op1("relu_grad", {y, dy});
}
ValueId scale(GraphBuilder& builder, ValueId x, double factor) {
  return builder.op1("scale", {x}, {{"factor", factor}});
}
ValueId where(GraphBuilder& builder, ValueId condition, ValueId a, ValueId b) {
  return builder.op1("where", {condition, a, b});
}
ValueId cast(GraphBuilder& builder, ValueId x, DType to) {
  return builder.op1("cast", {x}, {{"to", std::string(to_string(to))}});
}
ValueId equal(GraphBuilder& builder, ValueId a, ValueId b) { return builder.op1("equal", {a, b}); }
ValueId not_equal(GraphBuilder& builder, ValueId a, ValueId b) {
  return builder.op1("not_equal", {a, b});
}
ValueId less(GraphBuilder& builder, ValueId a, ValueId b) { return builder.op1("less", {a, b}); }
ValueId less_equal(GraphBuilder& builder, ValueId a, ValueId b) {
  return builder.op1("less_equal", {a, b});
}
ValueId greater(GraphBuilder& builder, ValueId a, ValueId b) {
  return builder.op1("greater", {a, b});
}
ValueId greater_equal(GraphBuilder& builder, ValueId a, ValueId b) {
  return builder.op1("greater_equal", {a, b});
}
ValueId fill(GraphBuilder& builder, double value, const Shape& shape) {
  return builder.op1("fill", {}, {{"value", value}, {"shape", shape}});
}

}  // namespace snug
