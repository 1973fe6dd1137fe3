// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/attention.h"

#include <algorithm>

#include "ops/attention/attention_rules.h"
#include "ops/op_probes.h"
#include "ops/op_rules.h"
#include "snug/error.h"

namespace snug {
namespace {

constexpr int64_t kAttentionMaxTokens = 65536;
constexpr int64_t kMaxHeads = 4095;
constexpr int64_t kMaxOrdinal = (int64_t{1} << 20) - 1;

void require_random_attrs(const InferArgs& args, size_t rng) {
  const double rate = args.attrs.real("rate");
  const int64_t ordinal = args.attrs.int64("ordinal");
  if (!(rate >= 0 && rate < 1)) shape_error(args, "rate must be in [0, 1)");
  if (ordinal < 0 || ordinal > kMaxOrdinal) {
    shape_error(args, "ordinal " + std::to_string(ordinal) + " is not in [0, 2^20)");
  }
  if (rate > 0 && !args.inputs.has(rng)) shape_error(args, "a rate above 0 needs the input rng");
  require_dtype(args, rng, DType::i64, "rng");
  require_shape(args, rng, {3}, "rng");
}

void require_window(const InferArgs& args) {
  if (args.attrs.int64("window") < 0) shape_error(args, "window must not be negative");
}

std::vector<TensorType> infer_attention(const InferArgs& args) {
  require_window(args);
  const TensorType lse = require_attention_operands(args, 3);
  return {args.inputs[0], lse};
}
std::vector<TensorType> infer_attention_grad(const InferArgs& args) {
  require_window(args);
  return require_attention_gradient(args, 6);
}

std::vector<ValueId> vjp_attention(const VjpArgs& args) {
  if (args.dy[1] != kNone) {
    throw Error(ErrorCode::unsupported, "attention", "the lse of attention has no gradient");
  }
  if (args.dy[0] == kNone) return {kNone, kNone, kNone, kNone, kNone};
  const std::vector<ValueId> gradients =
      args.builder.op("attention_grad",
                      {args.in(0), args.in(1), args.in(2), args.out(0), args.out(1), args.dy[0],
                       args.in(3), args.in(4)},
                      args.node.attrs);
  return {gradients[0], gradients[1], gradients[2], kNone, kNone};
}

// Pairs of one head whose scores are computed: behind a window whole blocks of keys are.
double computed_pairs(const CostArgs& args) {
  const int64_t tokens = args.inputs[0].shape[1];
  const int64_t window = attention_window(args.attrs);
  const int64_t keys = window > 0 ? std::min(tokens, 3 * window + 1) : tokens;
  return static_cast<double>(tokens) * static_cast<double>(keys);
}

Cost cost_attention(const CostArgs& args) {
  return attention_cost(args, 2 * pair_product_flops(args));
}
Cost cost_attention_grad(const CostArgs& args) {
  return attention_cost(args, 5 * pair_product_flops(args));
}

template <bool kIsGradient>
std::vector<RateProbe> attention_probes() {
  const Attrs attrs = {{"heads", int64_t{4}}, {"rate", 0.1}, {"ordinal", int64_t{0}}};
  std::vector<RateProbe> probes;
  for (const int64_t batch : {1, 6}) {
    const TensorType x = probes::f32({batch, 128, 256});
    const TensorType mask = probes::boolean({batch, 128});
    RateProbe probe{{x, x, x, mask, probes::rng()}, attrs, RateBasis::flops};
    if (kIsGradient) {
      const TensorType log_sums = probes::f32({batch, 4, 128});
      probe.inputs = {x, x, x, x, log_sums, x, mask, probes::rng()};
    }
    probes.push_back(std::move(probe));
  }
  return probes;
}

}  // namespace

TensorType require_attention_operands(const InferArgs& args, size_t mask) {
  require_floating(args, 0, "q");
  require_rank(args, 0, 3, "q");
  const Shape& q = args.inputs[0].shape;
  for (size_t i = 1; i <= 2; ++i) {
    require_dtype(args, i, args.inputs[0].dtype, i == 1 ? "k" : "v");
    require_shape(args, i, q, i == 1 ? "k" : "v");
  }
  const int64_t heads = args.attrs.int64("heads");
  if (heads < 1 || heads > kMaxHeads || q[2] % heads != 0 || q[2] == 0) {
    shape_error(args,
                std::to_string(heads) + " heads do not divide the width " + std::to_string(q[2]));
  }
  if (q[1] > kAttentionMaxTokens)
    shape_error(args, "q has more than 65536 tokens: " + to_string(q));
  require_dtype(args, mask, DType::boolean, "mask");
  require_shape(args, mask, {q[0], q[1]}, "mask");
  require_random_attrs(args, mask + 1);
  return {DType::f32, {q[0], heads, q[1]}};
}

std::vector<TensorType> require_attention_gradient(const InferArgs& args, size_t mask) {
  const TensorType lse = require_attention_operands(args, mask);
  require_dtype(args, 3, args.inputs[0].dtype, "o");
  require_dtype(args, 4, DType::f32, "lse");
  require_dtype(args, 5, args.inputs[0].dtype, "do");
  require_shape(args, 3, args.inputs[0].shape, "o");
  require_shape(args, 4, lse.shape, "lse");
  require_shape(args, 5, args.inputs[0].shape, "do");
  return {args.inputs[0], args.inputs[0], args.inputs[0]};
}

double pair_product_flops(const CostArgs& args) {
  const Shape& q = args.inputs[0].shape;
  return 2 * static_cast<double>(q[0]) * computed_pairs(args) * static_cast<double>(q[2]);
}

Cost attention_cost(const CostArgs& args, double product_flops) {
  const Shape& q = args.inputs[0].shape;
  const double scores =
      static_cast<double>(q[0] * args.attrs.int64("heads")) * computed_pairs(args);
  const double per_score = args.attrs.real("rate") > 0 ? 36 : 16;
  return streaming_cost(args, product_flops + per_score * scores);
}

AttentionOutputs attention(GraphBuilder& builder, ValueId q, ValueId k, ValueId v,
                           const AttentionOptions& options) {
  const bool is_random = options.rate > 0;
  const int64_t ordinal = is_random ? builder.next_random_ordinal() : 0;
  const std::vector<ValueId> outputs =
      builder.op("attention", {q, k, v, options.mask, is_random ? options.rng : kNone},
                 {{"heads", options.heads},
                  {"rate", options.rate},
                  {"ordinal", ordinal},
                  {"window", options.window}});
  return {outputs[0], outputs[1]};
}

std::span<const OpDef> attention_ops() {
  static const std::vector<AttrSpec> attrs = {
      required_attr("heads", int64_t{1}),
      {"rate", 0.0},
      with_role(AttrRole::ordinal, neutral({"ordinal", int64_t{0}})),
      {"window", int64_t{0}}};
  static const OpDef ops[] = {
      {.name = "attention",
       .inputs =
           std::vector<InputSpec>{"q", "k", "v", optional_input("mask"), optional_input("rng")},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"o", "lse"},
       .attrs = attrs,
       .infer = infer_attention,
       .gradient = Gradient(vjp_attention),
       .keeps = Keeps{.inputs = 0b11111, .outputs = 0b11},
       .cost = cost_attention,
       .alias = never_in_place(),
       .timing = {.probes = attention_probes<false>,
                  .usual = &kUsualAttentionRate,
                  .is_expensive = true},
       .row_flow = row_flow::leading_rows_alone,
       .precision = {Paint::allow}},
      {.name = "attention_grad",
       .inputs = std::vector<InputSpec>{"q", "k", "v", "o", "lse", "do", optional_input("mask"),
                                        optional_input("rng")},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dq", "dk", "dv"},
       .attrs = attrs,
       .infer = infer_attention_grad,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_attention_grad,
       .alias = never_in_place(),
       .timing = {.probes = attention_probes<true>, .usual = &kUsualAttentionRate}},
  };
  return ops;
}

}  // namespace snug
