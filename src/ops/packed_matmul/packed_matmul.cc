// SPDX-License-Identifier: Apache-2.0
#include "ops/packed_matmul/packed_matmul.h"

#include <array>

#include "ops/op_probes.h"
#include "ops/op_rules.h"

namespace snug {
namespace {

std::vector<TensorType> infer_pack(const InferArgs& args) {
  require_dtype(args, 0, DType::f32, "w");
  require_rank(args, 0, 2, "w");
  const int64_t width = args.attrs.int64("width");
  if (width < 1) shape_error(args, "width must be 1 or more, not " + std::to_string(width));
  const Shape& w = args.inputs[0].shape;
  const bool transpose = args.attrs.boolean("transpose");
  const int64_t n = w[transpose ? 0 : 1];
  return {{DType::f32, {(n + width - 1) / width, w[transpose ? 1 : 0], width}}};
}

std::vector<TensorType> infer_product(const InferArgs& args) {
  require_dtype(args, 0, DType::f32, "a");
  require_dtype(args, 1, DType::f32, "panels");
  require_rank(args, 1, 3, "panels");
  const Shape& a = args.inputs[0].shape;
  const Shape& panels = args.inputs[1].shape;
  if (a.size() < 2) shape_error(args, "a " + to_string(a) + " must have rank 2 or more");
  if (a.back() != panels[1]) {
    shape_error(args, "the summed dims of a " + to_string(a) + " and panels " + to_string(panels) +
                          " differ: " + std::to_string(a.back()) + " and " +
                          std::to_string(panels[1]));
  }
  const int64_t columns = args.attrs.int64("columns");
  const int64_t held = panels[0] * panels[2];
  if (columns > held || columns <= held - panels[2] || columns < 0) {
    shape_error(args, std::to_string(columns) + " columns do not end in the last of panels " +
                          to_string(panels));
  }
  TensorType out{DType::f32, a};
  out.shape.back() = columns;
  require_dtype(args, 2, DType::f32, "bias");
  if (!args.inputs.has(2) || args.inputs[2].shape != out.shape)
    require_shape(args, 2, {columns}, "bias");
  return {std::move(out)};
}

Cost cost_pack(const CostArgs& args) { return streaming_cost(args, 0); }

Cost cost_product(const CostArgs& args) {
  const double bias = args.inputs.has(2) ? element_flops(args.outputs[0], 1) : 0;
  const auto k = static_cast<double>(args.inputs[0].shape.back());
  return streaming_cost(args, 2 * k * element_flops(args.outputs[0], 1) + bias);
}

// Any width that every kernel takes.
constexpr int64_t kProbeWidth = 32;

std::vector<RateProbe> pack_probes() {
  std::vector<RateProbe> all;
  for (const bool transpose : {false, true}) {
    for (const Shape& w : {Shape{2048, 512}, Shape{256, 256}})
      all.push_back({{probes::f32(w)}, {{"transpose", transpose}, {"width", kProbeWidth}}});
  }
  return all;
}

std::vector<RateProbe> packed_matmul_probes() {
  std::vector<RateProbe> all;
  for (const auto& [m, k, n] : {std::array<int64_t, 3>{32, 512, 2048},
                                {32, 2048, 512},
                                {128, 768, 768},
                                {8, 256, 256},
                                {8, 1024, 256}}) {
    all.push_back(
        {{probes::f32({m, k}), probes::f32({n / kProbeWidth, k, kProbeWidth}), probes::f32({m, n})},
         {{"columns", n}},
         RateBasis::both});
  }
  return all;
}

constexpr UsualRate kPackedMatmulUsualRate{
    .per_call = 5e-6, .per_flop = 1.0 / 300e9, .per_byte = 1.0 / 60e9};

// Rows are those of a.
int row_flow_of_packed_matmul(const RowFlowArgs& args) {
  const int last = static_cast<int>(args.outputs[0].shape.size()) - 1;
  if (args.axes[1] >= 0 || (args.axes.size() > 2 && args.axes[2] >= 0)) return kCoupledRows;
  return args.axes[0] < last ? args.axes[0] : kCoupledRows;
}

}  // namespace

ValueId pack_weight(GraphBuilder& builder, ValueId w, bool transpose, int64_t width) {
  return builder.op1("pack_weight", {w}, {{"transpose", transpose}, {"width", width}});
}

bool is_packing(const Node& node) { return *node.op->name == "pack_weight"; }

ValueId packed_matmul(GraphBuilder& builder, ValueId a, ValueId panels, int64_t columns,
                      ValueId bias) {
  return builder.op1("packed_matmul", {a, panels, bias}, {{"columns", columns}});
}

std::span<const OpDef> packed_matmul_ops() {
  static const OpDef ops[] = {
      {.name = "pack_weight",
       .inputs = std::vector<InputSpec>{"w"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"panels"},
       .attrs = std::vector<AttrSpec>{{"transpose", false}, required_attr("width", int64_t{32})},
       .infer = infer_pack,
       .gradient = not_differentiable("it is made behind the backward part"),
       .keeps = Keeps{},
       .cost = cost_pack,
       .alias = never_in_place(),
       .timing = {.finds = Finds::little, .probes = pack_probes}},
      {.name = "packed_matmul",
       .inputs = std::vector<InputSpec>{"a", "panels", optional_input("bias")},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y"},
       .attrs = std::vector<AttrSpec>{required_attr("columns", int64_t{0})},
       .infer = infer_product,
       .gradient = not_differentiable("it is made behind the backward part"),
       .keeps = Keeps{},
       .cost = cost_product,
       .alias = never_in_place(),
       .timing = {.finds = Finds::most,
                  .probes = packed_matmul_probes,
                  .usual = &kPackedMatmulUsualRate,
                  .is_expensive = true},
       .row_flow = row_flow_of_packed_matmul},
  };
  return ops;
}

}  // namespace snug
