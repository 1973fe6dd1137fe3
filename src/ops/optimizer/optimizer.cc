// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/optimizer.h"

#include "ops/op_probes.h"
#include "ops/optimizer/optimizer_step.h"

namespace snug {
namespace {

using Inputs = std::vector<InputSpec>;
using Names = std::vector<std::string>;

std::vector<TensorType> infer_optimizer_accumulate(const InferArgs& args) {
  require_dtype(args, 0, DType::f32, "acc");
  require_f32(args, 1, args.inputs[0].shape, "x");
  return {args.inputs[0]};
}

std::vector<TensorType> infer_set_zero(const InferArgs& args) {
  if (args.inputs[0].dtype != DType::i32) require_dtype(args, 0, DType::f32, "x");
  return {args.inputs[0]};
}

std::vector<TensorType> infer_gradient_squares(const InferArgs& args) {
  require_dtype(args, 0, DType::f32, "g");
  require_f32(args, 1, {}, "scale");
  return {{DType::f32, {}}};
}

std::vector<TensorType> infer_global_norm(const InferArgs& args) {
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    require_dtype(args, i, DType::f32, "every sum of squares");
    require_shape(args, i, {}, "every sum of squares");
  }
  require_not_negative(args, "max_norm");
  return {{DType::f32, {}}, {DType::f32, {}}};
}

Cost cost_optimizer_accumulate(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], 1));
}
Cost cost_set_zero(const CostArgs& args) {
  return {.flops = 0,
          .bytes_read = 0,
          .bytes_written = static_cast<double>(byte_count(args.outputs[0]))};
}
Cost cost_gradient_squares(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], 2));
}
Cost cost_global_norm(const CostArgs& args) {
  return streaming_cost(args, static_cast<double>(args.inputs.size()) + 20);
}
Gradient no_gradient() { return not_differentiable("it is a part of the update"); }

// Past some size the system's function clears memory without reading it.
std::vector<RateProbe> set_zero_probes() {
  std::vector<RateProbe> all = probes::of_matrices<1>();
  all.push_back({{probes::matrix(8192)}});
  return all;
}

std::vector<RateProbe> sum_of_squares_probes() {
  std::vector<RateProbe> all;
  for (const size_t count : {size_t{8}, size_t{64}}) {
    all.push_back(
        {InputTypes(std::vector<InputTypes::Given>(count, probes::f32({}))), {}, RateBasis::flops});
  }
  return all;
}

}  // namespace

ValueId accumulate(GraphBuilder& builder, ValueId acc, ValueId x) {
  return builder.op1("accumulate", {acc, x});
}
ValueId set_zero(GraphBuilder& builder, ValueId x) { return builder.op1("set_zero", {x}); }
ValueId gradient_squares(GraphBuilder& builder, ValueId gradient, ValueId scale) {
  return builder.op1("gradient_squares", {gradient, scale});
}

GlobalNormOutputs global_norm(GraphBuilder& builder, std::span<const ValueId> sums_of_squares,
                              double max_norm) {
  const std::vector<ValueId> outputs = builder.op(
      "global_norm", {sums_of_squares.begin(), sums_of_squares.end()}, {{"max_norm", max_norm}});
  return {outputs[0], outputs[1]};
}

std::span<const OpDef> optimizer_ops() {
  static const OpDef ops[] = {
      {.name = "accumulate",
       .inputs = Inputs{"acc", "x"},
       .is_variadic = false,
       .outputs = Names{"sum"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_optimizer_accumulate,
       .gradient = not_differentiable("it accumulates gradients"),
       .keeps = Keeps{},
       .cost = cost_optimizer_accumulate,
       .alias = must_overwrite({{0, 0}}),
       // Gradients in memory.
       .timing = {.finds = Finds::little, .probes = probes::of_matrices<2>},
       .is_accumulation = true},
      {.name = "set_zero",
       .inputs = Inputs{"x"},
       .is_variadic = false,
       .outputs = Names{"zero"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_set_zero,
       .gradient = no_gradient(),
       .keeps = Keeps{},
       .cost = cost_set_zero,
       .alias = must_overwrite({{0, 0}}),
       // The update before it has just read what it clears.
       .timing = {.probes = set_zero_probes},
       .sparse_operand = SparseOperand{.rows = 0, .is_cleared = true}},
      {.name = "gradient_squares",
       .inputs = Inputs{"g", "scale"},
       .is_variadic = false,
       .outputs = Names{"sum"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_gradient_squares,
       .gradient = no_gradient(),
       .keeps = Keeps{},
       .cost = cost_gradient_squares,
       .alias = never_in_place(),
       .timing = {.finds = Finds::unwarmed,
                  .kind = [](const CostArgs&) { return std::string("sum_squares"); }},
       .sparse_operand = SparseOperand{.rows = 0}},
      {.name = "global_norm",
       .inputs = Inputs{"sum_of_squares"},
       .is_variadic = true,
       .outputs = Names{"norm", "coefficient"},
       .attrs = std::vector<AttrSpec>{{"max_norm", 0.0}},
       .infer = infer_global_norm,
       .gradient = no_gradient(),
       .keeps = Keeps{},
       .cost = cost_global_norm,
       .alias = never_in_place(),
       .timing = {.finds = Finds::unwarmed, .probes = sum_of_squares_probes}},
  };
  return ops;
}

}  // namespace snug
