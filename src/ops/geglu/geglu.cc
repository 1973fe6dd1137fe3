// SPDX-License-Identifier: Apache-2.0
#include "ops/geglu/geglu.h"

#include "ops/gelu.h"
#include "ops/op_probes.h"
#include "ops/op_rules.h"

namespace snug {
namespace {

std::vector<TensorType> infer_geglu(const InferArgs& args) {
  require_floating(args, 0, "x");
  check_approximation(args);
  TensorType y = args.inputs[0];
  if (y.shape.empty() || y.shape.back() % 2 != 0)
    shape_error(args, "the last axis of x " + to_string(y.shape) + " has no two halves");
  y.shape.back() /= 2;
  return {std::move(y)};
}

std::vector<TensorType> infer_geglu_grad(const InferArgs& args) {
  const std::vector<TensorType> y = infer_geglu(args);
  require_dtype(args, 1, y[0].dtype, "dy");
  require_shape(args, 1, y[0].shape, "dy");
  return {args.inputs[0]};
}

std::vector<ValueId> vjp_geglu(const VjpArgs& args) {
  return {args.builder.op1("geglu_grad", {args.in(0), args.dy[0]}, args.node.attrs)};
}

Cost cost_geglu(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.outputs[0], 21));
}
Cost cost_geglu_grad(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.outputs[0], 26));
}

template <bool kIsGradient>
std::vector<RateProbe> half_probes() {
  return probes::few_and_many([](int64_t rows) {
    const TensorType half = probes::f32({rows, probes::kWidth / 2});
    return kIsGradient ? RateProbe{{probes::matrix(rows), half}}
                       : RateProbe{{probes::matrix(rows)}};
  });
}

}  // namespace

ValueId geglu(GraphBuilder& builder, ValueId x, const std::string& approximate) {
  return builder.op1("geglu", {x}, {{"approximate", approximate}});
}

std::span<const OpDef> geglu_ops() {
  static const std::vector<AttrSpec> attrs = {{"approximate", std::string("none")}};
  static const OpDef ops[] = {
      {.name = "geglu",
       .inputs = std::vector<InputSpec>{"x"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y"},
       .attrs = attrs,
       .infer = infer_geglu,
       .gradient = Gradient(vjp_geglu),
       .keeps = Keeps{.inputs = 1},
       .cost = cost_geglu,
       .alias = never_in_place(),
       .timing = {.probes = half_probes<false>},
       .row_flow = row_flow::leading_rows_alone,
       .precision = {Paint::infer}},
      {.name = "geglu_grad",
       .inputs = std::vector<InputSpec>{"x", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dx"},
       .attrs = attrs,
       .infer = infer_geglu_grad,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_geglu_grad,
       .alias = may_overwrite({{0, 0}}),
       .timing = {.probes = half_probes<true>}},
  };
  return ops;
}

}  // namespace snug
