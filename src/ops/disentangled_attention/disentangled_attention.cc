// SPDX-License-Identifier: Apache-2.0
#include "ops/disentangled_attention/disentangled_attention.h"

#include <algorithm>
#include <cmath>

#include "ops/attention/attention_rules.h"
#include "ops/op_probes.h"
#include "ops/op_rules.h"
#include "snug/error.h"

namespace snug {
namespace {

// Inputs: q, k, v, the tables, mask, rng; of the gradient o, lse and do stand before the tables.
constexpr size_t kTables = 3;
constexpr size_t kGradTables = 6;

// Rows of the tables; 0 where none is given.
int64_t table_rows(const InputTypes& inputs, size_t tables) {
  for (const size_t i : {tables, tables + 1}) {
    if (inputs.has(i)) return inputs[i].shape[0];
  }
  return 0;
}

void require_tables(const InferArgs& args, size_t tables) {
  const Shape& q = args.inputs[0].shape;
  const std::string names[] = {"pos_key", "pos_query"};
  for (size_t i = 0; i < 2; ++i) {
    require_dtype(args, tables + i, args.inputs[0].dtype, names[i]);
    require_rank(args, tables + i, 2, names[i]);
    if (!args.inputs.has(tables + i)) continue;
    const int64_t rows = args.inputs[tables + i].shape[0];
    if (rows < 2 || rows % 2 != 0) {
      shape_error(args, names[i] + " must have a row for each of 2 span distances, not " +
                            std::to_string(rows) + " rows");
    }
    require_shape(args, tables + i, {table_rows(args.inputs, tables), q[2]}, names[i]);
  }
  const int64_t buckets = args.attrs.int64("buckets");
  const int64_t max_distance = args.attrs.int64("max_distance");
  const int64_t near = buckets / 2;
  if (buckets < 0 || buckets == 1)
    shape_error(args, "buckets must be 0, or 2 or more, not " + std::to_string(buckets));
  if (buckets > 0 && q[1] - 1 > near && max_distance - 1 <= near) {
    shape_error(args, std::to_string(buckets) + " buckets for " + std::to_string(q[1]) +
                          " tokens need a max_distance above " + std::to_string(near + 1) +
                          ", not " + std::to_string(max_distance));
  }
}

std::vector<TensorType> infer_disentangled_attention(const InferArgs& args) {
  const TensorType lse = require_attention_operands(args, kTables + 2);
  require_tables(args, kTables);
  return {args.inputs[0], lse};
}

std::vector<TensorType> infer_disentangled_attention_grad(const InferArgs& args) {
  std::vector<TensorType> types = require_attention_gradient(args, kGradTables + 2);
  require_tables(args, kGradTables);
  const int64_t rows = table_rows(args.inputs, kGradTables);
  for (const size_t i : {kGradTables, kGradTables + 1})
    types.push_back({DType::f32, {args.inputs.has(i) ? rows : 0, args.inputs[0].shape[2]}});
  return types;
}

std::vector<ValueId> vjp_disentangled_attention(const VjpArgs& args) {
  if (args.dy[1] != kNone) {
    throw Error(ErrorCode::unsupported, "disentangled_attention",
                "the lse of disentangled_attention has no gradient");
  }
  std::vector<ValueId> gradients(7, kNone);
  if (args.dy[0] == kNone) return gradients;
  const std::vector<ValueId> made =
      args.builder.op("disentangled_attention_grad",
                      {args.in(0), args.in(1), args.in(2), args.out(0), args.out(1), args.dy[0],
                       args.in(3), args.in(4), args.in(5), args.in(6)},
                      args.node.attrs);
  for (size_t i = 0; i < made.size(); ++i) {
    if (args.in(i) != kNone) gradients[i] = made[i];
  }
  return gradients;
}

// `of_tables` products of all tokens with those rows of each table that distances name.
Cost cost_of_disentangled_attention(const CostArgs& args, size_t tables, double of_pairs,
                                    double of_tables) {
  const Shape& q = args.inputs[0].shape;
  const int64_t rows = std::min(table_rows(args.inputs, tables), 2 * q[1] - 1);
  const int given = (args.inputs.has(tables) ? 1 : 0) + (args.inputs.has(tables + 1) ? 1 : 0);
  const double table_product = 2 * element_flops(args.inputs[0], static_cast<double>(rows));
  return attention_cost(args,
                        of_pairs * pair_product_flops(args) + given * of_tables * table_product);
}
Cost cost_disentangled_attention(const CostArgs& args) {
  return cost_of_disentangled_attention(args, kTables, 2, 1);
}
Cost cost_disentangled_attention_grad(const CostArgs& args) {
  return cost_of_disentangled_attention(args, kGradTables, 5, 3);
}

template <bool kIsGradient>
std::vector<RateProbe> probes_of() {
  const Attrs attrs = {{"heads", int64_t{4}},
                       {"rate", 0.1},
                       {"ordinal", int64_t{0}},
                       {"buckets", int64_t{64}},
                       {"max_distance", int64_t{128}}};
  const TensorType table = probes::f32({128, 256});
  std::vector<RateProbe> probes;
  for (const int64_t batch : {1, 6}) {
    const TensorType x = probes::f32({batch, 128, 256});
    const TensorType mask = probes::boolean({batch, 128});
    RateProbe probe{{x, x, x, table, table, mask, probes::rng()}, attrs, RateBasis::flops};
    if (kIsGradient) {
      const TensorType log_sums = probes::f32({batch, 4, 128});
      probe.inputs = {x, x, x, x, log_sums, x, table, table, mask, probes::rng()};
    }
    probes.push_back(std::move(probe));
  }
  return probes;
}

// Tables are the same for every row of the batch.
int row_flow_of_pairs(const RowFlowArgs& args) {
  for (const size_t table : {kTables, kTables + 1}) {
    if (args.axes[table] >= 0) return kCoupledRows;
  }
  return row_flow::leading_rows_alone(args);
}

}  // namespace

int64_t RelativeRows::row(int64_t distance) const {
  const int64_t near = buckets / 2;
  const int64_t length = std::abs(distance);
  int64_t bucket = length;
  if (buckets > 0 && length > near) {
    const auto middle = static_cast<float>(near);
    const auto furthest =
        static_cast<float>(static_cast<double>(max_distance - 1) / static_cast<double>(near));
    const float part = std::log(static_cast<float>(length) / middle) / std::log(furthest);
    bucket = static_cast<int64_t>(std::ceil(part * static_cast<float>(near - 1)) + middle);
  }
  return std::clamp((distance < 0 ? -bucket : bucket) + span, int64_t{0}, 2 * span - 1);
}

ValueId disentangled_attention(GraphBuilder& builder, ValueId q, ValueId k, ValueId v,
                               const DisentangledAttentionOptions& options) {
  const bool is_random = options.rate > 0;
  const int64_t ordinal = is_random ? builder.next_random_ordinal() : 0;
  return builder.op(
      "disentangled_attention",
      {q, k, v, options.pos_key, options.pos_query, options.mask, is_random ? options.rng : kNone},
      {{"heads", options.heads},
       {"rate", options.rate},
       {"ordinal", ordinal},
       {"buckets", options.buckets},
       {"max_distance", options.max_distance}})[0];
}

std::span<const OpDef> disentangled_attention_ops() {
  static const std::vector<AttrSpec> attrs = {
      required_attr("heads", int64_t{1}),
      {"rate", 0.0},
      with_role(AttrRole::ordinal, neutral({"ordinal", int64_t{0}})),
      {"buckets", int64_t{0}},
      {"max_distance", int64_t{0}}};
  static const OpDef ops[] = {
      {.name = "disentangled_attention",
       .inputs = std::vector<InputSpec>{"q", "k", "v", optional_input("pos_key"),
                                        optional_input("pos_query"), optional_input("mask"),
                                        optional_input("rng")},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"o", "lse"},
       .attrs = attrs,
       .infer = infer_disentangled_attention,
       .gradient = Gradient(vjp_disentangled_attention),
       .keeps = Keeps{.inputs = 0b1111111, .outputs = 0b11},
       .cost = cost_disentangled_attention,
       .alias = never_in_place(),
       .timing = {.probes = probes_of<false>, .usual = &kUsualAttentionRate, .is_expensive = true},
       .row_flow = row_flow_of_pairs,
       .precision = {Paint::allow}},
      {.name = "disentangled_attention_grad",
       .inputs = std::vector<InputSpec>{"q", "k", "v", "o", "lse", "do", optional_input("pos_key"),
                                        optional_input("pos_query"), optional_input("mask"),
                                        optional_input("rng")},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dq", "dk", "dv", "dpos_key", "dpos_query"},
       .attrs = attrs,
       .infer = infer_disentangled_attention_grad,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_disentangled_attention_grad,
       .alias = never_in_place(),
       .timing = {.probes = probes_of<true>, .usual = &kUsualAttentionRate}},
  };
  return ops;
}

}  // namespace snug
