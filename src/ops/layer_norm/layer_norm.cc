// SPDX-License-Identifier: Apache-2.0
#include "ops/layer_norm/layer_norm.h"

#include "ops/op_probes.h"
#include "ops/op_rules.h"
#include "snug/error.h"

namespace snug {
namespace {

// The shape of the statistics of x; checks that x has a last axis of at least one element.
Shape rows_shape(const InferArgs& args) {
  require_floating(args, 0, "x");
  const Shape& x = args.inputs[0].shape;
  if (x.empty() || x.back() == 0)
    shape_error(args, "x " + to_string(x) + " has no last axis to normalise");
  return {x.begin(), x.end() - 1};
}

std::vector<TensorType> infer_layer_norm(const InferArgs& args) {
  const Shape rows = rows_shape(args);
  const Shape width = {args.inputs[0].shape.back()};
  require_dtype(args, 1, DType::f32, "gamma");
  require_shape(args, 1, width, "gamma");
  require_dtype(args, 2, DType::f32, "beta");
  require_shape(args, 2, width, "beta");
  if (!(args.attrs.real("eps") >= 0)) shape_error(args, "eps must not be negative");
  return {args.inputs[0], {DType::f32, rows}, {DType::f32, rows}};
}

std::vector<TensorType> infer_layer_norm_grad(const InferArgs& args) {
  const Shape rows = rows_shape(args);
  const Shape width = {args.inputs[0].shape.back()};
  for (size_t i = 1; i < 4; ++i) require_dtype(args, i, DType::f32, "gamma, mean and rstd");
  require_dtype(args, 4, args.inputs[0].dtype, "dy");
  require_shape(args, 1, width, "gamma");
  require_shape(args, 2, rows, "mean");
  require_shape(args, 3, rows, "rstd");
  require_shape(args, 4, args.inputs[0].shape, "dy");
  return {args.inputs[0], {DType::f32, width}, {DType::f32, width}};
}

std::vector<ValueId> vjp_layer_norm(const VjpArgs& args) {
  if (args.dy[1] != kNone || args.dy[2] != kNone) {
    throw Error(ErrorCode::unsupported, "layer_norm",
                "the mean and rstd of layer_norm have no gradient");
  }
  if (args.dy[0] == kNone) return {kNone, kNone, kNone};
  return args.builder.op("layer_norm_grad",
                         {args.in(0), args.in(1), args.out(1), args.out(2), args.dy[0]});
}

Cost cost_layer_norm(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], 8));
}
Cost cost_layer_norm_grad(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], 15));
}

std::vector<RateProbe> layer_norm_probes() {
  return probes::few_and_many([](int64_t rows) {
    const TensorType row = probes::f32({probes::kWidth});
    return RateProbe{{probes::matrix(rows), row, row}};
  });
}
std::vector<RateProbe> layer_norm_grad_probes() {
  return probes::few_and_many([](int64_t rows) {
    const TensorType column = probes::f32({rows});
    return RateProbe{{probes::matrix(rows), probes::f32({probes::kWidth}), column, column,
                      probes::matrix(rows)}};
  });
}

}  // namespace

LayerNormOutputs layer_norm(GraphBuilder& builder, ValueId x, ValueId gamma, ValueId beta,
                            double eps) {
  const std::vector<ValueId> outputs = builder.op("layer_norm", {x, gamma, beta}, {{"eps", eps}});
  return {outputs[0], outputs[1], outputs[2]};
}

std::span<const OpDef> layer_norm_ops() {
  static const OpDef ops[] = {
      {.name = "layer_norm",
       .inputs = std::vector<InputSpec>{"x", "gamma", "beta"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y", "mean", "rstd"},
       .attrs = std::vector<AttrSpec>{{"eps", 1e-12}},
       .infer = infer_layer_norm,
       .gradient = Gradient(vjp_layer_norm),
       .keeps = Keeps{.inputs = 0b011, .outputs = 0b110},
       .cost = cost_layer_norm,
       .alias = may_overwrite({{0, 0}}),
       .timing = {.probes = layer_norm_probes},
       .row_flow = row_flow::all_but_last,
       .precision = {Paint::infer, [](const InputTypes&) { return 0b001U; }}},
      {.name = "layer_norm_grad",
       .inputs = std::vector<InputSpec>{"x", "gamma", "mean", "rstd", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dx", "dgamma", "dbeta"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_layer_norm_grad,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_layer_norm_grad,
       .alias = may_overwrite({{0, 4}, {0, 0}}),
       .timing = {.probes = layer_norm_grad_probes}},
  };
  return ops;
}

}  // namespace snug
