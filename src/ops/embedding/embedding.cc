// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding/embedding.h"

#include <algorithm>

#include "ops/op_probes.h"
#include "ops/op_rules.h"

namespace snug {
namespace {

std::vector<TensorType> infer_forward(const InferArgs& args) {
  require_dtype(args, 0, DType::f32, "table");
  require_rank(args, 0, 2, "table");
  require_dtype(args, 1, DType::i32, "ids");
  Shape shape = args.inputs[1].shape;
  shape.push_back(args.inputs[0].shape[1]);
  return {{floating_to(args), std::move(shape)}};
}

// Checks ids (input `ids`) against dy (the next input) and returns H.
int64_t gradient_width(const InferArgs& args, size_t ids) {
  require_dtype(args, ids, DType::i32, "ids");
  if (!is_floating(args.inputs[ids + 1].dtype))
    shape_error(args, "dy must be f32, bf16 or f16, not " + to_string(args.inputs[ids + 1]));
  const Shape& dy = args.inputs[ids + 1].shape;
  if (dy.empty()) shape_error(args, "dy must have rank 1 or more");
  Shape wanted = args.inputs[ids].shape;
  wanted.push_back(dy.back());
  require_shape(args, ids + 1, wanted, "dy");
  return dy.back();
}

std::vector<TensorType> infer_grad(const InferArgs& args) {
  const int64_t rows = args.attrs.int64("rows");
  if (rows < 0) shape_error(args, "rows must not be negative");
  return {{DType::f32, {rows, gradient_width(args, 0)}}};
}

std::vector<TensorType> infer_accumulate(const InferArgs& args) {
  require_dtype(args, 0, DType::f32, "acc");
  require_rank(args, 0, 2, "acc");
  require_shape(args, 0, {args.inputs[0].shape[0], gradient_width(args, 1)}, "acc");
  return {args.inputs[0]};
}

std::vector<ValueId> vjp(const VjpArgs& args) { return {table_gradient(args), kNone}; }

// Only the rows that ids name are read.
Cost cost_forward(const CostArgs& args) {
  const auto bytes = static_cast<double>(byte_count(args.outputs[0]));
  const auto table = static_cast<double>(byte_count(args.inputs[0]));
  return {.flops = 0,
          .bytes_read = std::min(bytes, table) + static_cast<double>(byte_count(args.inputs[1])),
          .bytes_written = bytes};
}
// The rows of a small table stay in a core's own cache: only those of dy come from elsewhere.
constexpr int64_t kSmallTableBytes = 1 << 18;
Cost cost_grad(const CostArgs& args) {
  const bool is_small = byte_count(args.outputs[0]) <= kSmallTableBytes;
  return streaming_cost(args, element_flops(args.inputs[1], is_small ? 0.5 : 1));
}
// Only the rows that ids name are touched.
Cost cost_accumulate(const CostArgs& args) {
  const auto bytes = static_cast<double>(byte_count(args.inputs[2]));
  return {.flops = element_flops(args.inputs[2], 1),
          .bytes_read = 2 * bytes + static_cast<double>(byte_count(args.inputs[1])),
          .bytes_written = bytes};
}

constexpr int64_t kProbedTable = 8192;  // rows

std::vector<RateProbe> on_rows(RateProbe (*probe_of_rows)(int64_t rows)) {
  return {probe_of_rows(32), probe_of_rows(1536)};
}
std::vector<RateProbe> embedding_probes() {
  return on_rows([](int64_t rows) {
    return RateProbe{
        {probes::matrix(kProbedTable), probes::i32({rows})}, {}, RateBasis::bytes, kProbedTable};
  });
}
// One table more, of which most rows are named: else clearing the table and adding to its rows
// would not be told apart.
std::vector<RateProbe> grad_probes() {
  const auto probe = [](int64_t table, int64_t rows) {
    return RateProbe{
        {probes::i32({rows}), probes::matrix(rows)}, {{"rows", table}}, RateBasis::both, table};
  };
  return {probe(kProbedTable, 32), probe(kProbedTable, 1536), probe(512, 1536), probe(2048, 8192)};
}
std::vector<RateProbe> accumulate_probes() {
  return on_rows([](int64_t rows) {
    return RateProbe{{probes::matrix(kProbedTable), probes::i32({rows}), probes::matrix(rows)},
                     {},
                     RateBasis::both,
                     kProbedTable};
  });
}

std::optional<CodedForm> coded_form(const Attrs& attrs) {
  return CodedForm{.operand = 0, .scales = 2, .op = "coded_embedding", .attrs = attrs};
}

std::optional<AccumulatingForm> accumulating_form(const InputTypes&, const Attrs&) {
  return AccumulatingForm{"embedding_grad_accumulate", {}};
}

}  // namespace

ValueId table_gradient(const VjpArgs& args) {
  const int64_t rows = args.type(args.in(0)).shape[0];
  return args.builder.op1("embedding_grad", {args.in(1), args.dy[0]}, {{"rows", rows}});
}

int row_flow_of_gather(const RowFlowArgs& args) {
  return args.axes[0] >= 0 ? kCoupledRows : args.axes[1];
}

ValueId embedding(GraphBuilder& builder, ValueId table, ValueId ids, DType to) {
  return builder.op1("embedding", {table, ids}, {{"to", std::string(to_string(to))}});
}

std::optional<size_t> table_of_gather(const Attrs&) { return 0; }

std::span<const OpDef> embedding_ops() {
  static const OpDef ops[] = {
      {.name = "embedding",
       .inputs = std::vector<InputSpec>{"table", "ids"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y"},
       .attrs = std::vector<AttrSpec>{{"to", std::string("f32")}},
       .infer = infer_forward,
       .gradient = Gradient(vjp),
       .keeps = Keeps{.inputs = 0b10},
       .cost = cost_forward,
       .alias = never_in_place(),
       .timing = {.finds = Finds::unwarmed, .probes = embedding_probes},
       .coded_form = coded_form,
       .table_operand = table_of_gather,
       .row_flow = row_flow_of_gather,
       .precision = {Paint::clear, [](const InputTypes&) { return 0U; }, true}},
      {.name = "embedding_grad",
       .inputs = std::vector<InputSpec>{"ids", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dtable"},
       .attrs = std::vector<AttrSpec>{required_attr("rows", int64_t{0})},
       .infer = infer_grad,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_grad,
       .alias = never_in_place(),
       // What it reads was just written; of a large output most is only cleared.
       .timing = {.finds = Finds::most, .probes = grad_probes},
       .accumulating_form = accumulating_form},
      {.name = "embedding_grad_accumulate",
       .inputs = std::vector<InputSpec>{"acc", "ids", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"sum"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_accumulate,
       .gradient = not_differentiable("it accumulates gradients"),
       .keeps = Keeps{},
       .cost = cost_accumulate,
       .alias = must_overwrite({{0, 0}}),
       .timing = {.finds = Finds::unwarmed, .probes = accumulate_probes}},
  };
  return ops;
}

}  // namespace snug
