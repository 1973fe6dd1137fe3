// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul/matmul.h"

#include <algorithm>
#include <array>

#include "ops/op_probes.h"
#include "ops/op_rules.h"
#include "snug/error.h"

namespace snug {
namespace {

// Shape of op(a) op(b); a and b are inputs `first` and `first + 1`.
Shape product_shape(const InferArgs& args, size_t first) {
  const Shape& a = args.inputs[first].shape;
  const Shape& b = args.inputs[first + 1].shape;
  const bool transpose_a = args.attrs.boolean("transpose_a");
  const bool transpose_b = args.attrs.boolean("transpose_b");
  require_floating(args, first, "a");
  require_dtype(args, first + 1, args.inputs[first].dtype, "b");
  const std::string both = "a " + to_string(a) + " and b " + to_string(b);
  if (a.size() < 2 || b.size() < 2) shape_error(args, both + " must have rank 2 or more");
  const bool is_batched = b.size() > 2;
  if (is_batched) {
    if (a.size() != b.size() || !std::equal(a.begin(), a.end() - 2, b.begin())) {
      shape_error(args, both + " must have the same leading dims, or b rank 2");
    }
  } else if (transpose_a && a.size() != 2) {
    shape_error(args,
                "a " + to_string(a) + " can be transposed only where a and b have the same rank");
  }
  const size_t last = a.size() - 1;
  const int64_t m = transpose_a ? a[last] : a[last - 1];
  const int64_t k = transpose_a ? a[last - 1] : a[last];
  const int64_t b_rows = b[b.size() - 2];
  const int64_t b_columns = b[b.size() - 1];
  if (k != (transpose_b ? b_columns : b_rows)) {
    shape_error(args, "the summed dims of " + both + " differ: " + std::to_string(k) + " and " +
                          std::to_string(transpose_b ? b_columns : b_rows));
  }
  Shape out(a.begin(), a.end() - 2);
  out.push_back(m);
  out.push_back(transpose_b ? b_rows : b_columns);
  return out;
}

std::vector<TensorType> infer_matmul(const InferArgs& args) {
  TensorType out{DType::f32, product_shape(args, 0)};
  out.dtype = args.attrs.text("to").empty() ? args.inputs[0].dtype : floating_to(args);
  if (args.inputs.has(2) && args.inputs[2].shape == out.shape) {
    require_dtype(args, 2, out.dtype, "bias");
  } else {
    require_dtype(args, 2, DType::f32, "bias");
    require_shape(args, 2, {out.shape.back()}, "bias");
  }
  return {std::move(out)};
}

std::vector<TensorType> infer_matmul_accumulate(const InferArgs& args) {
  require_dtype(args, 0, DType::f32, "acc");
  require_rank(args, 1, 2, "a");
  require_rank(args, 2, 2, "b");
  require_shape(args, 0, product_shape(args, 1), "acc");
  return {args.inputs[0]};
}

// Gradients of b and bias come first: a dies with them, before the memory of da is needed.
std::vector<ValueId> vjp_matmul(const VjpArgs& args) {
  GraphBuilder& builder = args.builder;
  const ValueId a = args.in(0);
  const ValueId b = args.in(1);
  const ValueId dy = args.dy[0];
  const bool transpose_a = args.node.attrs.boolean("transpose_a");
  const bool transpose_b = args.node.attrs.boolean("transpose_b");
  const auto stored = [&](ValueId operand) {
    const bool is_wide = args.type(operand).dtype != DType::f32 && args.is_of_weights(operand);
    return std::string(is_wide ? to_string(DType::f32) : "");
  };
  std::vector<ValueId> gradients(3, kNone);
  if (args.wants[2]) gradients[2] = bias_gradient(builder, args.in(2), dy);
  if (args.wants[1]) {
    const bool sums_over_rows = args.type(b).shape.size() == 2;
    const ValueId a_rows = sums_over_rows ? as_rows(builder, a) : a;
    const ValueId dy_rows = sums_over_rows ? as_rows(builder, dy) : dy;
    const std::string to = stored(b);
    gradients[1] = transpose_b
                       ? matmul(builder, dy_rows, a_rows,
                                {.transpose_a = true, .transpose_b = transpose_a, .to = to})
                       : matmul(builder, a_rows, dy_rows, {.transpose_a = !transpose_a, .to = to});
  }
  if (args.wants[0]) {
    const std::string to = stored(a);
    gradients[0] = transpose_a ? matmul(builder, b, dy,
                                        {.transpose_a = transpose_b, .transpose_b = true, .to = to})
                               : matmul(builder, dy, b, {.transpose_b = !transpose_b, .to = to});
  }
  return gradients;
}

MatmulDims product_dims(const CostArgs& args, size_t first) {
  return matmul_dims(args.inputs[first].shape, args.inputs[first + 1].shape,
                     args.attrs.boolean("transpose_a"), args.attrs.boolean("transpose_b"));
}

double matmul_flops(const CostArgs& args, size_t first) {
  const MatmulDims d = product_dims(args, first);
  return 2.0 * static_cast<double>(d.batch) * static_cast<double>(d.m) * static_cast<double>(d.n) *
         static_cast<double>(d.k);
}

Cost cost_matmul(const CostArgs& args) {
  const bool has_bias = args.inputs.has(2);
  return streaming_cost(args,
                        matmul_flops(args, 0) + (has_bias ? element_flops(args.outputs[0], 1) : 0));
}
Cost cost_matmul_accumulate(const CostArgs& args) {
  return streaming_cost(args, matmul_flops(args, 1) + element_flops(args.outputs[0], 1));
}

constexpr UsualRate kMatmulUsualRate{
    .per_call = 5e-6, .per_flop = 1.0 / 280e9, .per_byte = 1.0 / 60e9};

// A gradient of weights from fewer rows is read and written more than it is computed.
constexpr int64_t kFewRows = 64;

// Operands lie in memory in other ways in the backward part. Both ops have one rate, so that a
// split is never predicted faster by the noise between two measurements. `kFirst`: input a.
template <size_t kFirst>
std::string kind_of_matmul(const CostArgs& args) {
  const bool has_first_across = args.attrs.boolean("transpose_a");
  const bool has_second_across = args.attrs.boolean("transpose_b");
  const DType operands = args.inputs[kFirst].dtype;
  std::string kind = has_first_across ? "tn" : has_second_across ? "nt" : "nn";
  if (has_first_across && product_dims(args, kFirst).k <= kFewRows) kind += "_few";
  if (operands != DType::f32) kind += std::string("_") + to_string(operands);
  return kind == "nt" ? "matmul" : "matmul." + kind;
}

// Shapes of encoders and, with few rows, of recurrent nets.
std::vector<RateProbe> matmul_probes() {
  using probes::f32;
  using probes::kAbsent;
  std::vector<RateProbe> all;
  const auto add = [&](const Attrs& attrs, InputTypes inputs) {
    all.push_back({std::move(inputs), attrs, RateBasis::both});
  };
  const Attrs b_across = {{"transpose_b", true}};
  add(b_across, {f32({512, 768}), f32({768, 768}), f32({768})});
  add(b_across, {f32({512, 1024}), f32({256, 1024}), f32({256})});
  add(b_across, {f32({64, 768}), f32({768, 768}), kAbsent});
  add(b_across, {f32({32, 512}), f32({2048, 512}), f32({2048})});
  add(b_across, {f32({8, 256}), f32({256, 256}), kAbsent});
  add({}, {f32({1024, 256}), f32({256, 1024}), kAbsent});
  add({}, {f32({256, 768}), f32({768, 1536}), kAbsent});
  add({}, {f32({512, 1024}), f32({1024, 512}), kAbsent});
  add({}, {f32({32, 2048}), f32({2048, 512}), kAbsent});
  add({}, {f32({8, 256}), f32({256, 256}), kAbsent});
  // Products of one row each, or of few: as fast as the other operand can be read or written.
  const Attrs a_across = {{"transpose_a", true}};
  add({}, {f32({32, 1, 128}), f32({32, 128, 256}), kAbsent});
  add(a_across, {f32({32, 1, 128}), f32({32, 1, 256}), kAbsent});
  add(a_across, {f32({8, 256}), f32({8, 256}), kAbsent});
  add(b_across, {f32({4, 2048}), f32({1024, 2048}), f32({1024})});
  add({}, {f32({4, 1024}), f32({1024, 2048}), kAbsent});
  add(a_across, {f32({4, 1024}), f32({4, 2048}), kAbsent});
  const auto bf16 = [](Shape shape) { return TensorType{DType::bf16, std::move(shape)}; };
  const Attrs to_weights = {{"transpose_a", true}, {"to", std::string("f32")}};
  for (const auto& [m, k, n] : {std::array<int64_t, 3>{2048, 768, 768},
                                {512, 3072, 768},
                                {512, 768, 768},
                                {512, 1024, 256},
                                {128, 768, 768},
                                {64, 768, 768},
                                {32, 512, 2048},
                                {8, 256, 256}}) {
    add(b_across, {bf16({m, k}), bf16({n, k}), f32({n})});
    add({}, {bf16({m, n}), bf16({n, k}), kAbsent});
    if (m <= kFewRows) add(to_weights, {bf16({m, n}), bf16({m, k}), kAbsent});
  }
  // Gradients of weights from many rows: one operand was kept from the forward part, and what is
  // written is read at the end of the step.
  const auto add_gradient = [&](const Attrs& attrs, InputTypes inputs) {
    add(attrs, std::move(inputs));
    all.back().finds = Finds::little;
  };
  for (const auto& [k, m, n] :
       {std::array<int64_t, 3>{512, 768, 768}, {2048, 256, 256}, {512, 256, 1024}})
    add_gradient(a_across, {f32({k, m}), f32({k, n}), kAbsent});
  for (const auto& [k, m, n] :
       {std::array<int64_t, 3>{2048, 768, 768}, {512, 768, 768}, {512, 256, 1024}, {128, 768, 768}})
    add_gradient(to_weights, {bf16({k, m}), bf16({k, n}), kAbsent});
  return all;
}
// Products of few rows; those of many have the rate of plain products.
std::vector<RateProbe> matmul_accumulate_probes() {
  using probes::f32;
  std::vector<RateProbe> all;
  for (const auto& [m, n] : {std::array<int64_t, 2>{512, 2048}, {1024, 256}}) {
    all.push_back(
        {{f32({m, n}), f32({32, m}), f32({32, n})}, {{"transpose_a", true}}, RateBasis::both});
  }
  return all;
}

std::optional<AccumulatingForm> matmul_accumulating_form(const InputTypes& inputs,
                                                         const Attrs& attrs) {
  const bool is_plain =
      !inputs.has(2) && inputs[0].shape.size() == 2 && inputs[1].shape.size() == 2;
  if (!is_plain) return std::nullopt;
  return AccumulatingForm{"matmul_accumulate",
                          {{"transpose_a", attrs.boolean("transpose_a")},
                           {"transpose_b", attrs.boolean("transpose_b")}}};
}

// Panels are of f32 and of one matrix, and rows of a lie as they are.
std::optional<PackedForm> packed_form(const InputTypes& inputs, const Attrs& attrs,
                                      int64_t panel_columns) {
  const TensorType& a = inputs[0];
  const TensorType& b = inputs[1];
  const std::string& to = attrs.text("to");
  const bool is_f32 = a.dtype == DType::f32 && b.dtype == DType::f32 && (to.empty() || to == "f32");
  if (!is_f32 || attrs.boolean("transpose_a") || b.shape.size() != 2 || element_count(b) == 0)
    return std::nullopt;
  const bool is_transposed = attrs.boolean("transpose_b");
  PackedForm form{.operand = 1,
                  .is_transposed = is_transposed,
                  .packing = "pack_weight",
                  .packing_attrs = {{"transpose", is_transposed}, {"width", panel_columns}},
                  .op = "packed_matmul",
                  .attrs = {{"columns", b.shape[is_transposed ? 0 : 1]}},
                  .rows = 1};
  for (size_t i = 0; i + 1 < a.shape.size(); ++i) form.rows *= a.shape[i];
  return form;
}

std::optional<CodedForm> matmul_coded_form(const Attrs& attrs) {
  if (attrs.boolean("transpose_a")) return std::nullopt;
  return CodedForm{.operand = 1,
                   .scales = 2,
                   .op = "coded_matmul",
                   .attrs = {{"transpose_b", attrs.boolean("transpose_b")}}};
}

// A bias of one row stays in f32; another product is stored as this one.
uint32_t narrow_inputs(const InputTypes& inputs) {
  return inputs.has(2) && inputs[2].shape.size() > 1 ? 0b111 : 0b011;
}

// Rows may be an axis of separate products, the rows of a, or the columns of b; never what is
// summed.
int row_flow_of_matmul(const RowFlowArgs& args) {
  const auto rank = [&](size_t i) { return static_cast<int>(args.inputs[i].shape.size()); };
  const int out = static_cast<int>(args.outputs[0].shape.size());
  const int a = args.axes[0];
  const int b = args.axes[1];
  if (args.axes.size() > 2 && args.axes[2] >= 0) return kCoupledRows;
  const int a_rows = rank(0) - (args.attrs.boolean("transpose_a") ? 1 : 2);
  const int b_columns = rank(1) - (args.attrs.boolean("transpose_b") ? 2 : 1);
  const int a_batch = a >= 0 && a < rank(0) - 2 ? a + out - rank(0) : kNoRows;
  const int b_batch = b >= 0 && b < rank(1) - 2 ? b + out - rank(1) : kNoRows;
  if (a >= 0 && b >= 0) return a_batch >= 0 && a_batch == b_batch ? a_batch : kCoupledRows;
  if (a >= 0) return a_batch >= 0 ? a_batch : a == a_rows ? out - 2 : kCoupledRows;
  return b_batch >= 0 ? b_batch : b == b_columns ? out - 1 : kCoupledRows;
}

}  // namespace

ValueId as_rows(GraphBuilder& builder, ValueId x) {
  const Shape shape = builder.shape(x);
  if (shape.size() == 2) return x;
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return builder.op1("reshape", {x}, {{"shape", std::vector<int64_t>{rows, shape.back()}}});
}

MatmulDims matmul_dims(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b) {
  const size_t last = a.size() - 1;
  MatmulDims dims{.m = transpose_a ? a[last] : a[last - 1],
                  .n = transpose_b ? b[b.size() - 2] : b[b.size() - 1],
                  .k = transpose_a ? a[last - 1] : a[last]};
  int64_t leading = 1;
  for (size_t i = 0; i + 2 < a.size(); ++i) leading *= a[i];
  (b.size() > 2 ? dims.batch : dims.m) *= leading;
  return dims;
}

ValueId matmul(GraphBuilder& builder, ValueId a, ValueId b, const MatmulOptions& options) {
  return builder.op1("matmul", {a, b, options.bias},
                     {{"transpose_a", options.transpose_a},
                      {"transpose_b", options.transpose_b},
                      {"to", options.to}});
}

ValueId matmul_accumulate(GraphBuilder& builder, ValueId acc, ValueId a, ValueId b,
                          const MatmulOptions& options) {
  if (options.bias != kNone)
    throw Error(ErrorCode::invalid_graph, "matmul_accumulate", "it takes no bias");
  return builder.op1("matmul_accumulate", {acc, a, b},
                     {{"transpose_a", options.transpose_a}, {"transpose_b", options.transpose_b}});
}

ValueId bias_gradient(GraphBuilder& builder, ValueId bias, ValueId dy) {
  if (builder.shape(bias).size() > 1) return dy;
  std::vector<int64_t> axes;
  for (int64_t i = 0; i + 1 < static_cast<int64_t>(builder.shape(dy).size()); ++i)
    axes.push_back(i);
  return builder.op1("reduce_sum", {dy}, {{"axes", axes}});
}

std::span<const OpDef> matmul_ops() {
  static const std::vector<AttrSpec> attrs = {{"transpose_a", false}, {"transpose_b", false}};
  static const OpDef ops[] = {
      {.name = "matmul",
       .inputs = std::vector<InputSpec>{"a", "b", optional_input("bias")},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y"},
       .attrs =
           std::vector<AttrSpec>{
               {"transpose_a", false}, {"transpose_b", false}, {"to", std::string()}},
       .infer = infer_matmul,
       .gradient = Gradient(vjp_matmul),
       .keeps = Keeps{.inputs = 0b011},
       .cost = cost_matmul,
       .alias = never_in_place(),
       .timing = {.finds = Finds::most,
                  .probes = matmul_probes,
                  .kind = kind_of_matmul<0>,
                  .usual = &kMatmulUsualRate,
                  .is_expensive = true},
       .accumulating_form = matmul_accumulating_form,
       .packed_form = packed_form,
       .coded_form = matmul_coded_form,
       .linear_operand = 1,
       .row_flow = row_flow_of_matmul,
       .precision = {Paint::allow, narrow_inputs}},
      {.name = "matmul_accumulate",
       .inputs = std::vector<InputSpec>{"acc", "a", "b"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"sum"},
       .attrs = attrs,
       .infer = infer_matmul_accumulate,
       .gradient = not_differentiable("it accumulates gradients"),
       .keeps = Keeps{},
       .cost = cost_matmul_accumulate,
       .alias = must_overwrite({{0, 0}}),
       .timing = {.finds = Finds::most,
                  .probes = matmul_accumulate_probes,
                  .kind = kind_of_matmul<1>,
                  .is_expensive = true}},
  };
  return ops;
}

}  // namespace snug
