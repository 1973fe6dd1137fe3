// SPDX-License-Identifier: Apache-2.0
#include "ops/token_pool/token_pool.h"

#include "ops/op_probes.h"
#include "ops/op_rules.h"

namespace snug {
namespace {

TensorType pooled(const InferArgs& args) {
  require_floating(args, 0, "x");
  require_rank(args, 0, 3, "x");
  require_dtype(args, 1, DType::boolean, "mask");
  const Shape& x = args.inputs[0].shape;
  require_shape(args, 1, {x[0], x[1]}, "mask");
  return {args.inputs[0].dtype, {x[0], x[2]}};
}

std::vector<TensorType> infer_mean(const InferArgs& args) { return {pooled(args)}; }

std::vector<TensorType> infer_max(const InferArgs& args) {
  const TensorType y = pooled(args);
  return {y, {DType::i32, y.shape}};
}

std::vector<TensorType> infer_mean_grad(const InferArgs& args) {
  require_dtype(args, 0, DType::boolean, "mask");
  require_rank(args, 0, 2, "mask");
  require_floating(args, 1, "dy");
  require_rank(args, 1, 2, "dy");
  const Shape& mask = args.inputs[0].shape;
  const TensorType& dy = args.inputs[1];
  require_shape(args, 1, {mask[0], dy.shape[1]}, "dy");
  return {{dy.dtype, {mask[0], mask[1], dy.shape[1]}}};
}

std::vector<TensorType> infer_max_grad(const InferArgs& args) {
  require_dtype(args, 0, DType::i32, "token");
  require_rank(args, 0, 2, "token");
  require_floating(args, 1, "dy");
  const Shape& token = args.inputs[0].shape;
  require_shape(args, 1, token, "dy");
  const int64_t length = args.attrs.int64("length");
  if (length < 1) shape_error(args, "length must be at least 1");
  return {{args.inputs[1].dtype, {token[0], length, token[1]}}};
}

std::vector<ValueId> vjp_token_pool_mean(const VjpArgs& args) {
  return {args.builder.op1("masked_mean_grad", {args.in(1), args.dy[0]}), kNone};
}

std::vector<ValueId> vjp_token_pool_max(const VjpArgs& args) {
  const int64_t length = args.type(args.in(0)).shape[1];
  return {args.builder.op1("masked_max_grad", {args.out(1), args.dy[0]}, {{"length", length}}),
          kNone};
}

Cost cost_token_pool(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], 1));
}
Cost cost_token_pool_grad(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.outputs[0], 1));
}

std::vector<RateProbe> forward_probes() {
  return probes::few_and_many([](int64_t rows) {
    return RateProbe{
        {probes::f32({rows / 16, 16, probes::kWidth}), probes::boolean({rows / 16, 16})}};
  });
}
std::vector<RateProbe> mean_grad_probes() {
  return probes::few_and_many([](int64_t rows) {
    return RateProbe{{probes::boolean({rows / 16, 16}), probes::matrix(rows / 16)}};
  });
}
std::vector<RateProbe> max_grad_probes() {
  return probes::few_and_many([](int64_t rows) {
    return RateProbe{{probes::i32({rows / 16, probes::kWidth}), probes::matrix(rows / 16)},
                     {{"length", int64_t{16}}}};
  });
}

}  // namespace

ValueId masked_mean(GraphBuilder& builder, ValueId x, ValueId mask) {
  return builder.op1("masked_mean", {x, mask});
}

ValueId masked_max(GraphBuilder& builder, ValueId x, ValueId mask) {
  return builder.op("masked_max", {x, mask}).front();
}

std::span<const OpDef> token_pool_ops() {
  static const OpDef ops[] = {
      {.name = "masked_mean",
       .inputs = std::vector<InputSpec>{"x", "mask"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_mean,
       .gradient = Gradient(vjp_token_pool_mean),
       .keeps = Keeps{.inputs = 0b10},
       .cost = cost_token_pool,
       .alias = never_in_place(),
       .timing = {.probes = forward_probes},
       .row_flow = row_flow::leading,
       .precision = {Paint::infer}},
      {.name = "masked_mean_grad",
       .inputs = std::vector<InputSpec>{"mask", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dx"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_mean_grad,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_token_pool_grad,
       .alias = never_in_place(),
       .timing = {.probes = mean_grad_probes}},
      {.name = "masked_max",
       .inputs = std::vector<InputSpec>{"x", "mask"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y", "token"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_max,
       .gradient = Gradient(vjp_token_pool_max),
       .keeps = Keeps{.outputs = 0b10},
       .cost = cost_token_pool,
       .alias = never_in_place(),
       .timing = {.probes = forward_probes},
       .row_flow = row_flow::leading,
       .precision = {Paint::infer}},
      {.name = "masked_max_grad",
       .inputs = std::vector<InputSpec>{"token", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dx"},
       .attrs = std::vector<AttrSpec>{required_attr("length", int64_t{0})},
       .infer = infer_max_grad,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_token_pool_grad,
       .alias = never_in_place(),
       .timing = {.probes = max_grad_probes}},
  };
  return ops;
}

}  // namespace snug
