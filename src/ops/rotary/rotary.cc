// SPDX-License-Identifier: Apache-2.0
#include "ops/rotary/rotary.h"

#include "ops/elementwise/elementwise.h"
#include "ops/op_probes.h"
#include "ops/op_rules.h"

namespace snug {
namespace {

constexpr int64_t kRotaryMaxTokens = 65536;
constexpr int64_t kMaxColumns = 1024;

void check_heads(const InferArgs& args, const Shape& shape) {
  const int64_t heads = args.attrs.int64("heads");
  if (heads < 1 || shape[2] == 0 || shape[2] % (2 * heads) != 0)
    shape_error(args, std::to_string(heads) + " heads do not cut the width " +
                          std::to_string(shape[2]) + " into pairs of columns");
  if (shape[2] / heads > kMaxColumns) shape_error(args, "a head has more than 1024 columns");
  if (shape[1] > kRotaryMaxTokens) shape_error(args, "there are more than 65536 tokens");
  if (!(args.attrs.real("theta") > 0)) shape_error(args, "theta must be above 0");
}

std::vector<TensorType> infer_rotary(const InferArgs& args) {
  require_floating(args, 0, "qkv");
  require_rank(args, 0, 3, "qkv");
  TensorType part = args.inputs[0];
  if (part.shape[2] % 3 != 0)
    shape_error(args, "the width of qkv " + to_string(part.shape) + " has no three parts");
  part.shape[2] /= 3;
  check_heads(args, part.shape);
  return {part, part, part};
}

std::vector<TensorType> infer_rotary_grad(const InferArgs& args) {
  require_floating(args, 0, "dq");
  require_rank(args, 0, 3, "dq");
  for (size_t i = 1; i <= 2; ++i) {
    require_dtype(args, i, args.inputs[0].dtype, i == 1 ? "dk" : "dv");
    require_shape(args, i, args.inputs[0].shape, i == 1 ? "dk" : "dv");
  }
  check_heads(args, args.inputs[0].shape);
  TensorType whole = args.inputs[0];
  whole.shape[2] *= 3;
  return {std::move(whole)};
}

std::vector<ValueId> vjp_rotary(const VjpArgs& args) {
  GraphBuilder& b = args.builder;
  std::vector<ValueId> dy(args.dy.begin(), args.dy.end());
  for (size_t i = 0; i < dy.size(); ++i) {
    if (dy[i] != kNone) continue;
    const TensorType type = args.type(args.out(i));
    dy[i] = fill(b, 0, type.shape);
    if (type.dtype != DType::f32) dy[i] = cast(b, dy[i], type.dtype);
  }
  return {b.op1("rotary_qkv_grad", dy, args.node.attrs)};
}

Cost cost_rotary(const CostArgs& args) {
  double elements = 0;
  for (const InputTypes::Given& type : args.inputs) elements += element_flops(*type, 1);
  return streaming_cost(args, 2 * elements);
}

template <bool kIsGradient>
std::vector<RateProbe> third_probes() {
  return probes::few_and_many([](int64_t rows) {
    const Attrs attrs = {{"heads", int64_t{4}}, {"theta", 1e4}};
    const TensorType third = probes::f32({rows / 16, 16, probes::kWidth});
    return kIsGradient ? RateProbe{{third, third, third}, attrs}
                       : RateProbe{{probes::f32({rows / 16, 16, 3 * probes::kWidth})}, attrs};
  });
}

}  // namespace

RotaryOutputs rotary_qkv(GraphBuilder& builder, ValueId qkv, int64_t heads, double theta) {
  const std::vector<ValueId> parts =
      builder.op("rotary_qkv", {qkv}, {{"heads", heads}, {"theta", theta}});
  return {parts[0], parts[1], parts[2]};
}

std::span<const OpDef> rotary_ops() {
  static const std::vector<AttrSpec> attrs = {required_attr("heads", int64_t{1}),
                                              required_attr("theta", 0.0)};
  static const OpDef ops[] = {
      {.name = "rotary_qkv",
       .inputs = std::vector<InputSpec>{"qkv"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"q", "k", "v"},
       .attrs = attrs,
       .infer = infer_rotary,
       .gradient = Gradient(vjp_rotary),
       .keeps = Keeps{},
       .cost = cost_rotary,
       .alias = never_in_place(),
       .timing = {.probes = third_probes<false>},
       .row_flow = row_flow::leading_rows_alone,
       .precision = {Paint::infer}},
      {.name = "rotary_qkv_grad",
       .inputs = std::vector<InputSpec>{"dq", "dk", "dv"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dqkv"},
       .attrs = attrs,
       .infer = infer_rotary_grad,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_rotary,
       .alias = never_in_place(),
       .timing = {.probes = third_probes<true>}},
  };
  return ops;
}

}  // namespace snug
