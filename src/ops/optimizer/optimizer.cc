// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/optimizer.h"

#include "ops/op_rules.h"

namespace snug {
namespace {

using Inputs = std::vector<InputSpec>;
using Names = std::vector<std::string>;

void require_like(const InferArgs& args, size_t input, const std::string& name) {
  require_dtype(args, input, DType::f32, name);
  require_shape(args, input, args.inputs[0].shape, name);
}

// hyper at `input` and the coefficient after it.
void require_hyper(const InferArgs& args, size_t input) {
  require_dtype(args, input, DType::f32, "hyper");
  require_shape(args, input, {4}, "hyper");
  require_dtype(args, input + 1, DType::f32, "coefficient");
  require_shape(args, input + 1, {}, "coefficient");
}

// An attribute that is a share: [0, 1).
void require_share(const InferArgs& args, const std::string& name) {
  const double value = args.attrs.real(name);
  if (!(value >= 0 && value < 1)) shape_error(args, name + " must be in [0, 1)");
}
void require_not_negative(const InferArgs& args, const std::string& name) {
  if (!(args.attrs.real(name) >= 0)) shape_error(args, name + " must not be negative");
}

std::vector<TensorType> infer_accumulate(const InferArgs& args) {
  require_dtype(args, 0, DType::f32, "acc");
  require_like(args, 1, "x");
  return {args.inputs[0]};
}

std::vector<TensorType> infer_set_zero(const InferArgs& args) {
  require_dtype(args, 0, DType::f32, "x");
  return {args.inputs[0]};
}

std::vector<TensorType> infer_global_norm(const InferArgs& args) {
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    require_dtype(args, i, DType::f32, "every sum of squares");
    require_shape(args, i, {}, "every sum of squares");
  }
  require_not_negative(args, "max_norm");
  return {{DType::f32, {}}, {DType::f32, {}}};
}

std::vector<TensorType> infer_adamw(const InferArgs& args) {
  require_dtype(args, 0, DType::f32, "w");
  require_like(args, 1, "g");
  require_like(args, 2, "m");
  require_like(args, 3, "v");
  require_hyper(args, 4);
  require_share(args, "beta1");
  require_share(args, "beta2");
  require_not_negative(args, "eps");
  require_not_negative(args, "weight_decay");
  return {args.inputs[0], args.inputs[0], args.inputs[0]};
}

std::vector<TensorType> infer_sgd(const InferArgs& args) {
  require_dtype(args, 0, DType::f32, "w");
  require_like(args, 1, "g");
  require_hyper(args, 2);
  require_not_negative(args, "weight_decay");
  return {args.inputs[0]};
}

std::vector<TensorType> infer_sgd_momentum(const InferArgs& args) {
  require_dtype(args, 0, DType::f32, "w");
  require_like(args, 1, "g");
  require_like(args, 2, "buffer");
  require_hyper(args, 3);
  require_not_negative(args, "momentum");
  require_not_negative(args, "weight_decay");
  return {args.inputs[0], args.inputs[0]};
}

Cost cost_accumulate(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], 1));
}
Cost cost_set_zero(const CostArgs& args) {
  return {.flops = 0,
          .bytes_read = 0,
          .bytes_written = static_cast<double>(byte_count(args.outputs[0]))};
}
Cost cost_global_norm(const CostArgs& args) {
  return streaming_cost(args, static_cast<double>(args.inputs.size()) + 20);
}
Cost cost_adamw(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], 30));
}
Cost cost_sgd(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], 6));
}

Gradient no_gradient() { return not_differentiable("it is a part of the update"); }

OpDef make_adamw() {
  return {
      .name = "adamw",
      .inputs = Inputs{"w", "g", "m", "v", "hyper", optional_input("coefficient")},
      .is_variadic = false,
      .outputs = Names{"w", "m", "v"},
      .attrs = std::vector<AttrSpec>{required_attr("beta1", 0.0), required_attr("beta2", 0.0),
                                     required_attr("eps", 0.0), required_attr("weight_decay", 0.0)},
      .infer = infer_adamw,
      .gradient = no_gradient(),
      .keeps = Keeps{},
      .cost = cost_adamw,
      .alias = must_overwrite({{0, 0}, {1, 2}, {2, 3}})};
}

OpDef make_sgd_momentum() {
  return {.name = "sgd_momentum",
          .inputs = Inputs{"w", "g", "buffer", "hyper", optional_input("coefficient")},
          .is_variadic = false,
          .outputs = Names{"w", "buffer"},
          .attrs = std::vector<AttrSpec>{required_attr("momentum", 0.0),
                                         {"nesterov", false},
                                         required_attr("weight_decay", 0.0)},
          .infer = infer_sgd_momentum,
          .gradient = no_gradient(),
          .keeps = Keeps{},
          .cost = cost_sgd,
          .alias = must_overwrite({{0, 0}, {1, 2}})};
}

}  // namespace

ValueId accumulate(GraphBuilder& builder, ValueId acc, ValueId x) {
  return builder.op1("accumulate", {acc, x});
}
ValueId set_zero(GraphBuilder& builder, ValueId x) { return builder.op1("set_zero", {x}); }

GlobalNormOutputs global_norm(GraphBuilder& builder, std::span<const ValueId> sums_of_squares,
                              double max_norm) {
  const std::vector<ValueId> outputs = builder.op(
      "global_norm", {sums_of_squares.begin(), sums_of_squares.end()}, {{"max_norm", max_norm}});
  return {outputs[0], outputs[1]};
}

AdamWOutputs adamw(GraphBuilder& builder, ValueId w, ValueId g, ValueId m, ValueId v, ValueId hyper,
                   ValueId coefficient, const AdamWOptions& options) {
  const std::vector<ValueId> outputs = builder.op("adamw", {w, g, m, v, hyper, coefficient},
                                                  {{"beta1", options.beta1},
                                                   {"beta2", options.beta2},
                                                   {"eps", options.eps},
                                                   {"weight_decay", options.weight_decay}});
  return {outputs[0], outputs[1], outputs[2]};
}

ValueId sgd(GraphBuilder& builder, ValueId w, ValueId g, ValueId hyper, ValueId coefficient,
            double weight_decay) {
  return builder.op1("sgd", {w, g, hyper, coefficient}, {{"weight_decay", weight_decay}});
}

SgdMomentumOutputs sgd_momentum(GraphBuilder& builder, ValueId w, ValueId g, ValueId buffer,
                                ValueId hyper, ValueId coefficient,
                                const SgdMomentumOptions& options) {
  const std::vector<ValueId> outputs =
      builder.op("sgd_momentum", {w, g, buffer, hyper, coefficient},
                 {{"momentum", options.momentum},
                  {"nesterov", options.nesterov},
                  {"weight_decay", options.weight_decay}});
  return {outputs[0], outputs[1]};
}

std::span<const OpDef> optimizer_ops() {
  static const OpDef ops[] = {
      {.name = "accumulate",
       .inputs = Inputs{"acc", "x"},
       .is_variadic = false,
       .outputs = Names{"sum"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_accumulate,
       .gradient = not_differentiable("it accumulates gradients"),
       .keeps = Keeps{},
       .cost = cost_accumulate,
       .alias = must_overwrite({{0, 0}})},
      {.name = "set_zero",
       .inputs = Inputs{"x"},
       .is_variadic = false,
       .outputs = Names{"zero"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_set_zero,
       .gradient = no_gradient(),
       .keeps = Keeps{},
       .cost = cost_set_zero,
       .alias = must_overwrite({{0, 0}})},
      {.name = "global_norm",
       .inputs = Inputs{"sum_of_squares"},
       .is_variadic = true,
       .outputs = Names{"norm", "coefficient"},
       .attrs = std::vector<AttrSpec>{{"max_norm", 0.0}},
       .infer = infer_global_norm,
       .gradient = no_gradient(),
       .keeps = Keeps{},
       .cost = cost_global_norm,
       .alias = never_in_place()},
      make_adamw(),
      {.name = "sgd",
       .inputs = Inputs{"w", "g", "hyper", optional_input("coefficient")},
       .is_variadic = false,
       .outputs = Names{"w"},
       .attrs = std::vector<AttrSpec>{required_attr("weight_decay", 0.0)},
       .infer = infer_sgd,
       .gradient = no_gradient(),
       .keeps = Keeps{},
       .cost = cost_sgd,
       .alias = must_overwrite({{0, 0}})},
      make_sgd_momentum(),
  };
  return ops;
}

}  // namespace snug
