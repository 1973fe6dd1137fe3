// SPDX-License-Identifier: Apache-2.0
#include "ops/loss/loss.h"

#include "ops/op_probes.h"
#include "ops/op_rules.h"
#include "snug/error.h"

namespace snug {
namespace {

const TensorType kScalar = {DType::f32, {}};

void require_scalar(const InferArgs& args, size_t input, const std::string& name) {
  require_dtype(args, input, DType::f32, name);
  require_shape(args, input, {}, name);
}

// Checks the first four inputs; returns N.
int64_t require_classification(const InferArgs& args) {
  require_dtype(args, 0, DType::f32, "logits");
  require_rank(args, 0, 2, "logits");
  const int64_t rows = args.inputs[0].shape[0];
  if (args.inputs[0].shape[1] < 1) shape_error(args, "logits must have a class");
  require_dtype(args, 1, DType::i32, "labels");
  require_shape(args, 1, {rows}, "labels");
  require_dtype(args, 2, DType::f32, "row_weights");
  require_shape(args, 2, {rows}, "row_weights");
  require_scalar(args, 3, "inv_total");
  const double smoothing = args.attrs.real("label_smoothing");
  if (!(smoothing >= 0 && smoothing <= 1)) shape_error(args, "label_smoothing must be in [0, 1]");
  const double gamma = args.attrs.real("focal_gamma");
  if (!(gamma >= 0)) shape_error(args, "focal_gamma must be at least 0");
  if (gamma > 0 && smoothing > 0) shape_error(args, "focal_gamma goes without label_smoothing");
  return rows;
}

std::vector<TensorType> infer_cross_entropy(const InferArgs& args) {
  const int64_t rows = require_classification(args);
  return {kScalar, {DType::f32, {rows}}};
}

std::vector<TensorType> infer_cross_entropy_grad(const InferArgs& args) {
  const int64_t rows = require_classification(args);
  require_dtype(args, 4, DType::f32, "lse");
  require_shape(args, 4, {rows}, "lse");
  require_scalar(args, 5, "dloss");
  return {args.inputs[0]};
}

void require_regression(const InferArgs& args) {
  require_dtype(args, 0, DType::f32, "pred");
  const Shape& pred = args.inputs[0].shape;
  if (pred.empty()) shape_error(args, "pred must have rank 1 or more");
  require_dtype(args, 1, DType::f32, "target");
  require_shape(args, 1, pred, "target");
  require_dtype(args, 2, DType::f32, "row_weights");
  require_shape(args, 2, {pred[0]}, "row_weights");
  require_scalar(args, 3, "inv_total");
}

std::vector<TensorType> infer_squared(const InferArgs& args) {
  require_regression(args);
  return {kScalar};
}

std::vector<TensorType> infer_squared_grad(const InferArgs& args) {
  require_regression(args);
  require_scalar(args, 4, "dloss");
  return {args.inputs[0]};
}

std::vector<ValueId> vjp_cross_entropy(const VjpArgs& args) {
  if (args.dy[1] != kNone) {
    throw Error(ErrorCode::unsupported, "softmax_cross_entropy", "its lse has no gradient");
  }
  const ValueId dlogits = args.builder.op1(
      "softmax_cross_entropy_grad",
      {args.in(0), args.in(1), args.in(2), args.in(3), args.out(1), args.dy[0]}, args.node.attrs);
  return {dlogits, kNone, kNone, kNone};
}

std::vector<ValueId> vjp_squared(const VjpArgs& args) {
  std::vector<ValueId> gradients(4, kNone);
  const ValueId dpred = args.builder.op1(
      "mean_squared_error_grad", {args.in(0), args.in(1), args.in(2), args.in(3), args.dy[0]});
  if (args.wants[0]) gradients[0] = dpred;
  if (args.wants[1]) gradients[1] = args.builder.op1("neg", {dpred});
  return gradients;
}

std::vector<ValueId> vjp_smooth_l1(const VjpArgs& args) {
  std::vector<ValueId> gradients(4, kNone);
  const ValueId dpred = args.builder.op1(
      "smooth_l1_grad", {args.in(0), args.in(1), args.in(2), args.in(3), args.dy[0]});
  if (args.wants[0]) gradients[0] = dpred;
  if (args.wants[1]) gradients[1] = args.builder.op1("neg", {dpred});
  return gradients;
}

std::vector<ValueId> vjp_binary(const VjpArgs& args) {
  std::vector<ValueId> gradients(4, kNone);
  if (args.wants[0]) {
    gradients[0] = args.builder.op1("binary_cross_entropy_grad",
                                    {args.in(0), args.in(1), args.in(2), args.in(3), args.dy[0]},
                                    args.node.attrs);
  }
  return gradients;
}

Cost cost_cross_entropy(const CostArgs& args) {
  // A row of few classes still takes a logarithm and vectors that are not full.
  constexpr double kElementsPerRow = 200;
  return streaming_cost(args, element_flops(args.inputs[0], 14) +
                                  element_flops(args.inputs[1], 14 * kElementsPerRow));
}
Cost cost_squared(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], 4));
}
Cost cost_binary(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], 40));
}

/// A loss of predictions and targets of one shape, or its gradient.
OpDef target_op(const char* name, Gradient gradient, CostFn cost,
                std::vector<AttrSpec> attrs = {}) {
  return {.name = name,
          .inputs = std::vector<InputSpec>{"pred", "target", "row_weights", "inv_total"},
          .is_variadic = false,
          .outputs = std::vector<std::string>{"loss"},
          .attrs = std::move(attrs),
          .infer = infer_squared,
          .gradient = std::move(gradient),
          .keeps = Keeps{.inputs = 0b1111},
          .cost = std::move(cost),
          .alias = never_in_place(),
          .precision = {Paint::deny}};
}
OpDef target_grad_op(const char* name, CostFn cost, std::vector<AttrSpec> attrs = {}) {
  return {.name = name,
          .inputs = std::vector<InputSpec>{"pred", "target", "row_weights", "inv_total", "dloss"},
          .is_variadic = false,
          .outputs = std::vector<std::string>{"dpred"},
          .attrs = std::move(attrs),
          .infer = infer_squared_grad,
          .gradient = not_differentiable("it is a gradient"),
          .keeps = Keeps{},
          .cost = std::move(cost),
          .alias = may_overwrite({{0, 0}, {0, 1}})};
}

// Rows of two classes and of many.
template <bool kIsGradient>
std::vector<RateProbe> cross_entropy_probes() {
  std::vector<RateProbe> all;
  for (const int64_t classes : {int64_t{2}, probes::kWidth}) {
    probes::append(probes::few_and_many([classes](int64_t rows) {
                     const TensorType column = probes::f32({rows});
                     RateProbe probe{{probes::f32({rows, classes}), probes::i32({rows}), column,
                                      probes::f32({})},
                                     {},
                                     RateBasis::flops};
                     if (kIsGradient) {
                       probe.inputs.add(column);
                       probe.inputs.add(probes::f32({}));
                     }
                     return probe;
                   }),
                   all);
  }
  return all;
}

}  // namespace

CrossEntropyOutputs softmax_cross_entropy(GraphBuilder& builder, ValueId logits, ValueId labels,
                                          ValueId row_weights, ValueId inv_total,
                                          CrossEntropyOptions options) {
  const std::vector<ValueId> outputs =
      builder.op("softmax_cross_entropy", {logits, labels, row_weights, inv_total},
                 {{"ignore_index", options.ignore_index},
                  {"label_smoothing", options.label_smoothing},
                  {"focal_gamma", options.focal_gamma}});
  return {outputs[0], outputs[1]};
}

ValueId mean_squared_error(GraphBuilder& builder, ValueId pred, ValueId target, ValueId row_weights,
                           ValueId inv_total) {
  return builder.op1("mean_squared_error", {pred, target, row_weights, inv_total});
}

ValueId smooth_l1(GraphBuilder& builder, ValueId pred, ValueId target, ValueId row_weights,
                  ValueId inv_total) {
  return builder.op1("smooth_l1", {pred, target, row_weights, inv_total});
}

ValueId binary_cross_entropy(GraphBuilder& builder, ValueId logits, ValueId target,
                             ValueId row_weights, ValueId inv_total, double focal_gamma) {
  return builder.op1("binary_cross_entropy", {logits, target, row_weights, inv_total},
                     {{"focal_gamma", focal_gamma}});
}

std::span<const OpDef> loss_ops() {
  static const std::vector<AttrSpec> attrs = {
      {"ignore_index", kIgnoreIndex}, {"label_smoothing", 0.0}, {"focal_gamma", 0.0}};
  static const OpDef ops[] = {
      {.name = "softmax_cross_entropy",
       .inputs = std::vector<InputSpec>{"logits", "labels", "row_weights", "inv_total"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"loss", "lse"},
       .attrs = attrs,
       .infer = infer_cross_entropy,
       .gradient = Gradient(vjp_cross_entropy),
       .keeps = Keeps{.inputs = 0b1111, .outputs = 0b10},
       .cost = cost_cross_entropy,
       .alias = never_in_place(),
       .timing = {.finds = Finds::unwarmed, .probes = cross_entropy_probes<false>},
       .precision = {Paint::deny}},
      {.name = "softmax_cross_entropy_grad",
       .inputs =
           std::vector<InputSpec>{"logits", "labels", "row_weights", "inv_total", "lse", "dloss"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dlogits"},
       .attrs = attrs,
       .infer = infer_cross_entropy_grad,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_cross_entropy,
       .alias = may_overwrite({{0, 0}}),
       .timing = {.finds = Finds::unwarmed, .probes = cross_entropy_probes<true>}},
      target_op("mean_squared_error", Gradient(vjp_squared), cost_squared),
      target_grad_op("mean_squared_error_grad", cost_squared),
      target_op("smooth_l1", Gradient(vjp_smooth_l1), cost_squared),
      target_grad_op("smooth_l1_grad", cost_squared),
      target_op("binary_cross_entropy", Gradient(vjp_binary), cost_binary, {{"focal_gamma", 0.0}}),
      target_grad_op("binary_cross_entropy_grad", cost_binary, {{"focal_gamma", 0.0}}),
  };
  return ops;
}

}  // namespace snug
