// SPDX-License-Identifier: Apache-2.0
#include "ops/coded/coded.h"

#include <algorithm>
#include <cmath>

#include "ops/embedding/embedding.h"
#include "ops/matmul/matmul.h"
#include "ops/op_probes.h"
#include "ops/op_rules.h"
#include "ops/shape/shape.h"

namespace snug {
namespace {

constexpr int kZeroCode = 128;
constexpr float kMostCode = 127;
constexpr double kRowsOfDecoding = 16;

// The weight is input `weight`, its scales are input `scales`.
void check_weight(const InferArgs& args, size_t weight, size_t scales) {
  require_rank(args, weight, 2, "weight");
  const TensorType& type = args.inputs[weight];
  if (is_floating(type.dtype) && type.dtype != DType::f32) {
    if (args.inputs.has(scales))
      shape_error(args, std::string("a weight in ") + to_string(type.dtype) + " has no scales");
    return;
  }
  require_dtype(args, weight, DType::u8, "weight");
  if (!args.inputs.has(scales)) shape_error(args, "a weight in 8 bits needs its scales");
  require_dtype(args, scales, DType::f32, "scales");
  require_shape(args, scales, {type.shape[0], coded_blocks(type.shape[1])}, "scales");
}

std::vector<TensorType> infer_coded_matmul(const InferArgs& args) {
  require_dtype(args, 0, DType::f32, "a");
  check_weight(args, 1, 2);
  const bool transpose_b = args.attrs.boolean("transpose_b");
  const Shape& weight = args.inputs[1].shape;
  Shape out = args.inputs[0].shape;
  if (out.size() < 2) shape_error(args, "a " + to_string(out) + " must have rank 2 or more");
  if (out.back() != weight[transpose_b ? 1 : 0])
    shape_error(args, "the summed dims of a " + to_string(out) + " and the weight " +
                          to_string(weight) + " differ");
  out.back() = weight[transpose_b ? 0 : 1];
  require_dtype(args, 3, DType::f32, "bias");
  if (args.inputs.has(3) && args.inputs[3].shape != out)
    require_shape(args, 3, {out.back()}, "bias");
  return {{DType::f32, std::move(out)}};
}

std::vector<TensorType> infer_coded_embedding(const InferArgs& args) {
  check_weight(args, 0, 2);
  require_dtype(args, 1, DType::i32, "ids");
  Shape shape = args.inputs[1].shape;
  shape.push_back(args.inputs[0].shape[1]);
  return {{floating_to(args), std::move(shape)}};
}

std::vector<TensorType> infer_coded_embedding_sum(const InferArgs& args) {
  check_weight(args, 0, 3);
  return {{DType::f32, shape_of_embedding_sum(args)}};
}

std::vector<TensorType> infer_upper_half(const InferArgs& args) {
  require_dtype(args, 0, DType::bf16x8, "weight");
  return {{DType::bf16, args.inputs[0].shape}};
}

std::vector<ValueId> vjp_coded_matmul(const VjpArgs& args) {
  GraphBuilder& builder = args.builder;
  const ValueId dy = args.dy[0];
  std::vector<ValueId> gradients(4, kNone);
  const bool transpose_b = args.node.attrs.boolean("transpose_b");
  if (args.wants[3]) gradients[3] = bias_gradient(builder, args.in(3), dy);
  if (args.wants[1]) {
    const ValueId a = as_rows(builder, args.in(0));
    const ValueId dy_rows = as_rows(builder, dy);
    gradients[1] = transpose_b ? matmul(builder, dy_rows, a, {.transpose_a = true})
                               : matmul(builder, a, dy_rows, {.transpose_a = true});
  }
  if (args.wants[0])
    gradients[0] = builder.op1("coded_matmul", {dy, args.in(1), args.in(2), kNone},
                               {{"transpose_b", !transpose_b}});
  return gradients;
}

std::vector<ValueId> vjp_coded_embedding(const VjpArgs& args) {
  return {table_gradient(args), kNone, kNone};
}

// By the weights of the sum it is the product of every row with dy.
std::vector<ValueId> vjp_coded_embedding_sum(const VjpArgs& args) {
  GraphBuilder& builder = args.builder;
  std::vector<ValueId> gradients = {table_gradient_of_sum(args), kNone, kNone, kNone};
  if (!args.wants[2]) return gradients;
  const ValueId rows =
      builder.op1("coded_embedding", {args.in(0), args.in(1), args.in(3)}, {{"to", "f32"}});
  Shape column = builder.shape(args.dy[0]);
  column.push_back(1);
  const ValueId products = matmul(builder, rows, reshape(builder, args.dy[0], column));
  gradients[2] = reshape(builder, products, builder.shape(args.in(2)));
  return gradients;
}

// Decoding an element takes as long as some 16 rows take to use it.
Cost cost_coded_matmul(const CostArgs& args) {
  const TensorType& weight = args.inputs[1];
  const Shape& a = args.inputs[0].shape;
  const double rows =
      a.back() == 0 ? 0 : element_flops(args.inputs[0], 1.0 / static_cast<double>(a.back()));
  return streaming_cost(args, 2 * (rows + kRowsOfDecoding) * element_flops(weight, 1));
}
Cost cost_coded_embedding(const CostArgs& args) {
  const auto bytes = static_cast<double>(byte_count(args.outputs[0]));
  return {.flops = element_flops(args.outputs[0], 2),
          .bytes_read = bytes / 4 + static_cast<double>(byte_count(args.inputs[1])),
          .bytes_written = bytes};
}

Cost cost_coded_embedding_sum(const CostArgs& args) {
  const double elements =
      element_flops(args.inputs[1], static_cast<double>(args.inputs[0].shape[1]));
  Cost cost{.flops = 4 * elements,
            .bytes_read = std::min(elements, static_cast<double>(byte_count(args.inputs[0]))),
            .bytes_written = static_cast<double>(byte_count(args.outputs[0]))};
  for (const size_t i : {1, 2}) cost.bytes_read += static_cast<double>(byte_count(args.inputs[i]));
  return cost;
}

// Each way of decoding has a rate of its own.
std::string kind_of_coded_matmul(const CostArgs& args) {
  const DType dtype = args.inputs[1].dtype;
  return dtype == DType::u8 ? "coded_matmul" : std::string("coded_matmul.") + to_string(dtype);
}

std::vector<RateProbe> coded_matmul_probes() {
  using probes::f32;
  using probes::kAbsent;
  std::vector<RateProbe> all;
  for (const DType dtype : {DType::u8, DType::bf16, DType::bf16x8}) {
    InputTypes::Given scales = kAbsent;
    if (dtype == DType::u8) scales = f32({768, coded_blocks(768)});
    for (const bool transpose_b : {true, false}) {
      for (const int64_t rows : {16, 512})
        all.push_back({{f32({rows, 768}), TensorType{dtype, {768, 768}}, scales, kAbsent},
                       {{"transpose_b", transpose_b}},
                       RateBasis::both});
    }
  }
  return all;
}

int row_flow_of_coded_matmul(const RowFlowArgs& args) {
  const int last = static_cast<int>(args.inputs[0].shape.size()) - 1;
  const bool has_other =
      std::any_of(args.axes.begin() + 1, args.axes.end(), [](int axis) { return axis >= 0; });
  return has_other || args.axes[0] == last ? kCoupledRows : args.axes[0];
}

}  // namespace

void encode_coded_row(std::span<const float> row, std::span<uint8_t> codes,
                      std::span<float> scales) {
  for (size_t begin = 0, block = 0; begin < row.size(); begin += kCodedBlock, ++block) {
    const size_t end = std::min(row.size(), begin + kCodedBlock);
    float most = 0;
    for (size_t i = begin; i < end; ++i) most = std::max(most, std::fabs(row[i]));
    scales[block] = most / kMostCode;
    for (size_t i = begin; i < end; ++i) {
      const float code = most == 0 ? 0 : std::nearbyint(row[i] / most * kMostCode);
      codes[i] = static_cast<uint8_t>(kZeroCode + static_cast<int>(code));
    }
  }
}

void decode_coded_row(std::span<const uint8_t> codes, std::span<const float> scales,
                      std::span<float> row) {
  for (size_t begin = 0, block = 0; begin < row.size(); begin += kCodedBlock, ++block) {
    const size_t end = std::min(row.size(), begin + kCodedBlock);
    const float scale = scales[block];
    for (size_t i = begin; i < end; ++i)
      row[i] = scale * static_cast<float>(static_cast<int>(codes[i]) - kZeroCode);
  }
}

ValueId upper_half(GraphBuilder& builder, ValueId weight) {
  return builder.op1("upper_half", {weight});
}

std::span<const OpDef> coded_ops() {
  static const OpDef ops[] = {
      {.name = "coded_matmul",
       .inputs =
           std::vector<InputSpec>{"a", "weight", optional_input("scales"), optional_input("bias")},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y"},
       .attrs = std::vector<AttrSpec>{{"transpose_b", false}},
       .infer = infer_coded_matmul,
       .gradient = Gradient(vjp_coded_matmul),
       .keeps = Keeps{.inputs = 0b0111},
       .cost = cost_coded_matmul,
       .alias = never_in_place(),
       .timing = {.finds = Finds::most,
                  .probes = coded_matmul_probes,
                  .kind = kind_of_coded_matmul,
                  .is_expensive = true},
       .row_flow = row_flow_of_coded_matmul},
      {.name = "coded_embedding",
       .inputs = std::vector<InputSpec>{"weight", "ids", optional_input("scales")},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y"},
       .attrs = std::vector<AttrSpec>{{"to", std::string("f32")}},
       .infer = infer_coded_embedding,
       .gradient = Gradient(vjp_coded_embedding),
       .keeps = Keeps{.inputs = 0b010},
       .cost = cost_coded_embedding,
       .alias = never_in_place(),
       .timing = {.finds = Finds::unwarmed},
       .table_operand = table_of_gather,
       .row_flow = row_flow_of_gather},
      {.name = "coded_embedding_sum",
       .inputs = std::vector<InputSpec>{"weight", "ids", "weights", optional_input("scales")},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_coded_embedding_sum,
       .gradient = Gradient(vjp_coded_embedding_sum),
       .keeps = Keeps{.inputs = 0b1111},
       .cost = cost_coded_embedding_sum,
       .alias = never_in_place(),
       .timing = {.finds = Finds::unwarmed},
       .table_operand = table_of_gather,
       .row_flow = row_flow_of_sum},
      {.name = "upper_half",
       .inputs = std::vector<InputSpec>{"weight"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_upper_half,
       .gradient = not_differentiable("what flows into it is the gradient of its weight"),
       .keeps = Keeps{},
       .cost = [](const CostArgs&) { return Cost{}; },
       .alias = view_of_input(),
       .is_conversion = true,
       .row_flow = row_flow::elementwise},
  };
  return ops;
}

}  // namespace snug
