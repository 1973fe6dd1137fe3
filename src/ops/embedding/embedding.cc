// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding/embedding.h"

#include <algorithm>

#include "ops/op_probes.h"
#include "ops/op_rules.h"

namespace snug {
namespace {

void require_table(const InferArgs& args) {
  require_dtype(args, 0, DType::f32, "table");
  require_rank(args, 0, 2, "table");
}

// The weights of a sum, behind its ids.
void require_weights(const InferArgs& args, size_t ids) {
  require_dtype(args, ids + 1, DType::f32, "weights");
  require_shape(args, ids + 1, args.inputs[ids].shape, "weights");
}

std::vector<TensorType> infer_embedding(const InferArgs& args) {
  require_table(args);
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

// What a sum over the last axis of ids (input `ids`) has where that axis was: H for T.
Shape shape_of_sum(const InferArgs& args, size_t ids, int64_t columns) {
  require_dtype(args, ids, DType::i32, "ids");
  Shape shape = args.inputs[ids].shape;
  if (shape.empty()) shape_error(args, "ids must have rank 1 or more");
  shape.back() = columns;
  return shape;
}

// Checks ids (input `ids`), weights and dy (the next ones) and returns H.
int64_t sum_gradient_width(const InferArgs& args, size_t ids) {
  const Shape& dy = args.inputs[ids + 2].shape;
  const Shape wanted = shape_of_sum(args, ids, dy.empty() ? 1 : dy.back());
  require_weights(args, ids);
  require_dtype(args, ids + 2, DType::f32, "dy");
  require_shape(args, ids + 2, wanted, "dy");
  return wanted.back();
}

int64_t rows_of_gradient(const InferArgs& args) {
  const int64_t rows = args.attrs.int64("rows");
  if (rows < 0) shape_error(args, "rows must not be negative");
  return rows;
}

std::vector<TensorType> sum_with_gradient(const InferArgs& args, int64_t columns) {
  require_dtype(args, 0, DType::f32, "acc");
  require_rank(args, 0, 2, "acc");
  require_shape(args, 0, {args.inputs[0].shape[0], columns}, "acc");
  return {args.inputs[0]};
}

std::vector<TensorType> infer_embedding_grad(const InferArgs& args) {
  return {{DType::f32, {rows_of_gradient(args), gradient_width(args, 0)}}};
}

// For ids that are input 0.
std::vector<TensorType> row_sparse_gradient(const InferArgs& args, int64_t width) {
  return {{DType::f32, {element_count(args.inputs[0].shape), width}},
          {DType::i32, {rows_of_gradient(args)}}};
}

std::vector<TensorType> infer_embedding_grad_rows(const InferArgs& args) {
  return row_sparse_gradient(args, gradient_width(args, 0));
}

std::vector<TensorType> infer_embedding_accumulate(const InferArgs& args) {
  return sum_with_gradient(args, gradient_width(args, 1));
}

// The inputs of a row-sparse sum: its rows, which is which, and how many there are.
constexpr size_t kSumInputs = 3;

std::vector<TensorType> row_sparse_sum(const InferArgs& args, int64_t width) {
  require_dtype(args, 1, DType::i32, "row_of");
  require_rank(args, 1, 1, "row_of");
  require_dtype(args, 2, DType::i32, "count");
  require_shape(args, 2, {}, "count");
  return {sum_with_gradient(args, width)[0], args.inputs[1], args.inputs[2]};
}

std::vector<TensorType> infer_embedding_rows_accumulate(const InferArgs& args) {
  return row_sparse_sum(args, gradient_width(args, kSumInputs));
}

std::vector<TensorType> infer_embedding_sum(const InferArgs& args) {
  require_table(args);
  return {{DType::f32, shape_of_embedding_sum(args)}};
}

std::vector<TensorType> infer_sum_grad(const InferArgs& args) {
  return {{DType::f32, {rows_of_gradient(args), sum_gradient_width(args, 0)}}};
}

std::vector<TensorType> infer_sum_grad_rows(const InferArgs& args) {
  return row_sparse_gradient(args, sum_gradient_width(args, 0));
}

std::vector<TensorType> infer_sum_accumulate(const InferArgs& args) {
  return sum_with_gradient(args, sum_gradient_width(args, 1));
}

std::vector<TensorType> infer_sum_rows_accumulate(const InferArgs& args) {
  return row_sparse_sum(args, sum_gradient_width(args, kSumInputs));
}

std::vector<TensorType> infer_sum_grad_weights(const InferArgs& args) {
  require_table(args);
  const Shape wanted = shape_of_sum(args, 1, args.inputs[0].shape[1]);
  require_dtype(args, 2, DType::f32, "dy");
  require_shape(args, 2, wanted, "dy");
  return {{DType::f32, args.inputs[1].shape}};
}

std::vector<ValueId> vjp_embedding(const VjpArgs& args) { return {table_gradient(args), kNone}; }

std::vector<ValueId> vjp_embedding_sum(const VjpArgs& args) {
  std::vector<ValueId> gradients = {table_gradient_of_sum(args), kNone, kNone};
  if (args.wants[2])
    gradients[2] =
        args.builder.op1("embedding_sum_grad_weights", {args.in(0), args.in(1), args.dy[0]});
  return gradients;
}

// Only the rows that ids name are read.
Cost cost_embedding(const CostArgs& args) {
  const auto bytes = static_cast<double>(byte_count(args.outputs[0]));
  const auto table = static_cast<double>(byte_count(args.inputs[0]));
  return {.flops = 0,
          .bytes_read = std::min(bytes, table) + static_cast<double>(byte_count(args.inputs[1])),
          .bytes_written = bytes};
}
// The rows of a small table stay in a core's own cache: only those of dy come from elsewhere.
constexpr int64_t kSmallTableBytes = 1 << 18;
Cost cost_embedding_grad(const CostArgs& args) {
  const bool is_small = byte_count(args.outputs[0]) <= kSmallTableBytes;
  return streaming_cost(args, element_flops(args.inputs[1], is_small ? 0.5 : 1));
}
// The rows that are added to are those of dy, or fewer.
Cost cost_embedding_grad_rows(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[1], 1));
}
// Only the rows that ids (input `ids`) name are touched.
Cost cost_of_adding(const CostArgs& args, size_t ids) {
  const auto bytes = static_cast<double>(byte_count(args.inputs[ids + 1]));
  return {.flops = element_flops(args.inputs[ids + 1], 1),
          .bytes_read = 2 * bytes + static_cast<double>(byte_count(args.inputs[ids])),
          .bytes_written = bytes};
}
Cost cost_embedding_accumulate(const CostArgs& args) { return cost_of_adding(args, 1); }
// And which rows of a row-sparse sum they are.
Cost with_numbers(Cost cost, const CostArgs& args) {
  const auto bytes = static_cast<double>(byte_count(args.inputs[kSumInputs]) +
                                         byte_count(args.inputs[kSumInputs - 1]));
  cost.bytes_read += bytes;
  cost.bytes_written += bytes;
  return cost;
}
Cost cost_embedding_rows_accumulate(const CostArgs& args) {
  return with_numbers(cost_of_adding(args, kSumInputs), args);
}

// The rows of a table that so many ids name, as far as they are different ones.
double bytes_of_rows(const TensorType& table, const TensorType& ids) {
  const double bytes = element_flops(ids, static_cast<double>(table.shape[1] * 4));
  return std::min(bytes, element_flops(table, 4));
}
// What a sum costs: what is computed for every id, and the operands but the table.
Cost cost_of_sum(const CostArgs& args, const TensorType& table, size_t ids) {
  Cost cost{.flops = element_flops(args.inputs[ids], 2 * static_cast<double>(table.shape[1]))};
  for (size_t i = ids; i < args.inputs.size(); ++i)
    cost.bytes_read += static_cast<double>(byte_count(args.inputs[i]));
  return cost;
}
// And of the gradient by the weights.
Cost cost_embedding_sum(const CostArgs& args) {
  Cost cost = cost_of_sum(args, args.inputs[0], 1);
  cost.bytes_read += bytes_of_rows(args.inputs[0], args.inputs[1]);
  cost.bytes_written = static_cast<double>(byte_count(args.outputs[0]));
  return cost;
}
// The table is cleared before its rows are added to.
Cost cost_sum_grad(const CostArgs& args) {
  Cost cost = cost_of_sum(args, args.outputs[0], 0);
  cost.bytes_read += bytes_of_rows(args.outputs[0], args.inputs[0]);
  cost.bytes_written = static_cast<double>(byte_count(args.outputs[0]));
  return cost;
}
// The same of a table that has only the rows of the ids, and what says which they are.
Cost cost_sum_grad_rows(const CostArgs& args) {
  Cost cost = cost_sum_grad(args);
  cost.bytes_written += static_cast<double>(byte_count(args.outputs[1]));
  return cost;
}
Cost cost_of_adding_sums(const CostArgs& args, size_t ids) {
  Cost cost = cost_of_sum(args, args.outputs[0], ids);
  cost.bytes_written = bytes_of_rows(args.outputs[0], args.inputs[ids]);
  cost.bytes_read += cost.bytes_written;
  return cost;
}
Cost cost_sum_accumulate(const CostArgs& args) { return cost_of_adding_sums(args, 1); }
Cost cost_sum_rows_accumulate(const CostArgs& args) {
  return with_numbers(cost_of_adding_sums(args, kSumInputs), args);
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
std::vector<RateProbe> embedding_grad_probes() {
  const auto probe = [](int64_t table, int64_t rows) {
    return RateProbe{
        {probes::i32({rows}), probes::matrix(rows)}, {{"rows", table}}, RateBasis::both, table};
  };
  return {probe(kProbedTable, 32), probe(kProbedTable, 1536), probe(512, 1536), probe(2048, 8192)};
}
std::vector<RateProbe> embedding_grad_rows_probes() {
  return on_rows([](int64_t rows) {
    return RateProbe{{probes::i32({rows}), probes::matrix(rows)},
                     {{"rows", kProbedTable}},
                     RateBasis::both,
                     kProbedTable};
  });
}
std::vector<RateProbe> embedding_accumulate_probes() {
  return on_rows([](int64_t rows) {
    return RateProbe{{probes::matrix(kProbedTable), probes::i32({rows}), probes::matrix(rows)},
                     {},
                     RateBasis::both,
                     kProbedTable};
  });
}

// Every row of the table has one in the sum.
std::vector<RateProbe> embedding_rows_accumulate_probes() {
  return on_rows([](int64_t rows) {
    return RateProbe{{probes::matrix(kProbedTable), probes::i32({kProbedTable}), probes::i32({}),
                      probes::i32({rows}), probes::matrix(rows)},
                     {},
                     RateBasis::both,
                     kProbedTable};
  });
}

// Few ids, many, and several for each row of the table: most of their rows come from the caches.
template <class Probe>
std::vector<RateProbe> of_sums(const Probe& probe) {
  return {probe(Shape{2, 16}), probe(Shape{96, 16}), probe(Shape{128, 128})};
}
std::vector<RateProbe> embedding_sum_probes() {
  return of_sums([](const Shape& ids) {
    return RateProbe{{probes::matrix(kProbedTable), probes::i32(ids), probes::f32(ids)},
                     {},
                     RateBasis::both,
                     kProbedTable};
  });
}
RateProbe sum_grad_probe(int64_t table, const Shape& ids) {
  return {{probes::i32(ids), probes::f32(ids), probes::matrix(ids[0])},
          {{"rows", table}},
          RateBasis::both,
          table};
}
std::vector<RateProbe> sum_grad_rows_probes() {
  return of_sums([](const Shape& ids) { return sum_grad_probe(kProbedTable, ids); });
}
std::vector<RateProbe> sum_grad_probes() {
  std::vector<RateProbe> all = sum_grad_rows_probes();
  all.push_back(sum_grad_probe(512, {96, 16}));
  return all;
}
std::vector<RateProbe> sum_accumulate_probes() {
  return of_sums([](const Shape& ids) {
    return RateProbe{
        {probes::matrix(kProbedTable), probes::i32(ids), probes::f32(ids), probes::matrix(ids[0])},
        {},
        RateBasis::both,
        kProbedTable};
  });
}
std::vector<RateProbe> sum_rows_accumulate_probes() {
  return of_sums([](const Shape& ids) {
    return RateProbe{{probes::matrix(kProbedTable), probes::i32({kProbedTable}), probes::i32({}),
                      probes::i32(ids), probes::f32(ids), probes::matrix(ids[0])},
                     {},
                     RateBasis::both,
                     kProbedTable};
  });
}
std::vector<RateProbe> sum_grad_weights_probes() {
  return of_sums([](const Shape& ids) {
    return RateProbe{{probes::matrix(kProbedTable), probes::i32(ids), probes::matrix(ids[0])},
                     {},
                     RateBasis::both,
                     kProbedTable};
  });
}

std::optional<CodedForm> embedding_coded_form(const Attrs& attrs) {
  return CodedForm{.operand = 0, .scales = 2, .op = "coded_embedding", .attrs = attrs};
}

std::optional<CodedForm> coded_form_of_sum(const Attrs& attrs) {
  return CodedForm{.operand = 0, .scales = 3, .op = "coded_embedding_sum", .attrs = attrs};
}

// Where at most half of the rows can occur.
std::optional<SparseForm> sparse_form(const std::string& op, const InputTypes& inputs,
                                      const Attrs& attrs) {
  const int64_t rows = element_count(inputs[0].shape);
  if (2 * rows > attrs.int64("rows")) return std::nullopt;
  return SparseForm{.op = op, .attrs = attrs, .rows = rows, .accumulating_op = op + "_accumulate"};
}
std::optional<SparseForm> embedding_sparse_form(const InputTypes& inputs, const Attrs& attrs) {
  return sparse_form("embedding_grad_rows", inputs, attrs);
}
std::optional<SparseForm> sparse_form_of_sum(const InputTypes& inputs, const Attrs& attrs) {
  return sparse_form("embedding_sum_grad_rows", inputs, attrs);
}

std::optional<AccumulatingForm> embedding_accumulating_form(const InputTypes&, const Attrs&) {
  return AccumulatingForm{"embedding_grad_accumulate", {}};
}
std::optional<AccumulatingForm> accumulating_form_of_sum(const InputTypes&, const Attrs&) {
  return AccumulatingForm{"embedding_sum_grad_accumulate", {}};
}

}  // namespace

Shape shape_of_embedding_sum(const InferArgs& args) {
  require_weights(args, 1);
  return shape_of_sum(args, 1, args.inputs[0].shape[1]);
}

ValueId table_gradient(const VjpArgs& args) {
  const int64_t rows = args.type(args.in(0)).shape[0];
  return args.builder.op1("embedding_grad", {args.in(1), args.dy[0]}, {{"rows", rows}});
}

ValueId table_gradient_of_sum(const VjpArgs& args) {
  if (!args.wants[0]) return kNone;
  const int64_t rows = args.type(args.in(0)).shape[0];
  return args.builder.op1("embedding_sum_grad", {args.in(1), args.in(2), args.dy[0]},
                          {{"rows", rows}});
}

int row_flow_of_gather(const RowFlowArgs& args) {
  return args.axes[0] >= 0 ? kCoupledRows : args.axes[1];
}

int row_flow_of_sum(const RowFlowArgs& args) {
  const int of_ids = args.axes[1];
  const int axis = of_ids >= 0 ? of_ids : args.axes[2];
  const bool differ = of_ids >= 0 && args.axes[2] >= 0 && of_ids != args.axes[2];
  const int summed = static_cast<int>(args.inputs[1].shape.size()) - 1;
  return args.axes[0] >= 0 || differ || axis == summed ? kCoupledRows : axis;
}

ValueId embedding(GraphBuilder& builder, ValueId table, ValueId ids, DType to) {
  return builder.op1("embedding", {table, ids}, {{"to", std::string(to_string(to))}});
}

ValueId embedding_sum(GraphBuilder& builder, ValueId table, ValueId ids, ValueId weights) {
  return builder.op1("embedding_sum", {table, ids, weights});
}

std::optional<size_t> table_of_gather(const Attrs&) { return 0; }

std::span<const OpDef> embedding_ops() {
  static const OpDef ops[] = {
      {.name = "embedding",
       .inputs = std::vector<InputSpec>{"table", "ids"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y"},
       .attrs = std::vector<AttrSpec>{{"to", std::string("f32")}},
       .infer = infer_embedding,
       .gradient = Gradient(vjp_embedding),
       .keeps = Keeps{.inputs = 0b10},
       .cost = cost_embedding,
       .alias = never_in_place(),
       .timing = {.finds = Finds::unwarmed, .probes = embedding_probes},
       .coded_form = embedding_coded_form,
       .table_operand = table_of_gather,
       .row_flow = row_flow_of_gather,
       .precision = {Paint::clear, [](const InputTypes&) { return 0U; }, true}},
      {.name = "embedding_grad",
       .inputs = std::vector<InputSpec>{"ids", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dtable"},
       .attrs = std::vector<AttrSpec>{required_attr("rows", int64_t{0})},
       .infer = infer_embedding_grad,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_embedding_grad,
       .alias = never_in_place(),
       // What it reads was just written; of a large output most is only cleared.
       .timing = {.finds = Finds::most, .probes = embedding_grad_probes},
       .accumulating_form = embedding_accumulating_form,
       .sparse_form = embedding_sparse_form},
      {.name = "embedding_grad_rows",
       .inputs = std::vector<InputSpec>{"ids", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dtable", "row_of"},
       .attrs = std::vector<AttrSpec>{required_attr("rows", int64_t{0})},
       .infer = infer_embedding_grad_rows,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_embedding_grad_rows,
       .alias = never_in_place(),
       .timing = {.finds = Finds::most, .probes = embedding_grad_rows_probes}},
      {.name = "embedding_grad_accumulate",
       .inputs = std::vector<InputSpec>{"acc", "ids", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"sum"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_embedding_accumulate,
       .gradient = not_differentiable("it accumulates gradients"),
       .keeps = Keeps{},
       .cost = cost_embedding_accumulate,
       .alias = must_overwrite({{0, 0}}),
       .timing = {.finds = Finds::unwarmed, .probes = embedding_accumulate_probes}},
      {.name = "embedding_grad_rows_accumulate",
       .inputs = std::vector<InputSpec>{"acc", "row_of", "count", "ids", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"sum", "rows", "counted"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_embedding_rows_accumulate,
       .gradient = not_differentiable("it accumulates gradients"),
       .keeps = Keeps{},
       .cost = cost_embedding_rows_accumulate,
       .alias = must_overwrite({{0, 0}, {1, 1}, {2, 2}}),
       .timing = {.finds = Finds::unwarmed, .probes = embedding_rows_accumulate_probes}},
      {.name = "embedding_sum",
       .inputs = std::vector<InputSpec>{"table", "ids", "weights"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_embedding_sum,
       .gradient = Gradient(vjp_embedding_sum),
       .keeps = Keeps{.inputs = 0b111},
       .cost = cost_embedding_sum,
       .alias = never_in_place(),
       // The table was last touched by its update, a step ago.
       .timing = {.finds = Finds::nothing, .probes = embedding_sum_probes},
       .coded_form = coded_form_of_sum,
       .table_operand = table_of_gather,
       .row_flow = row_flow_of_sum},
      {.name = "embedding_sum_grad",
       .inputs = std::vector<InputSpec>{"ids", "weights", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dtable"},
       .attrs = std::vector<AttrSpec>{required_attr("rows", int64_t{0})},
       .infer = infer_sum_grad,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_sum_grad,
       .alias = never_in_place(),
       .timing = {.finds = Finds::most, .probes = sum_grad_probes},
       .accumulating_form = accumulating_form_of_sum,
       .sparse_form = sparse_form_of_sum},
      {.name = "embedding_sum_grad_rows",
       .inputs = std::vector<InputSpec>{"ids", "weights", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dtable", "row_of"},
       .attrs = std::vector<AttrSpec>{required_attr("rows", int64_t{0})},
       .infer = infer_sum_grad_rows,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_sum_grad_rows,
       .alias = never_in_place(),
       .timing = {.finds = Finds::most, .probes = sum_grad_rows_probes}},
      {.name = "embedding_sum_grad_accumulate",
       .inputs = std::vector<InputSpec>{"acc", "ids", "weights", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"sum"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_sum_accumulate,
       .gradient = not_differentiable("it accumulates gradients"),
       .keeps = Keeps{},
       .cost = cost_sum_accumulate,
       .alias = must_overwrite({{0, 0}}),
       .timing = {.finds = Finds::unwarmed, .probes = sum_accumulate_probes}},
      {.name = "embedding_sum_grad_rows_accumulate",
       .inputs = std::vector<InputSpec>{"acc", "row_of", "count", "ids", "weights", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"sum", "rows", "counted"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_sum_rows_accumulate,
       .gradient = not_differentiable("it accumulates gradients"),
       .keeps = Keeps{},
       .cost = cost_sum_rows_accumulate,
       .alias = must_overwrite({{0, 0}, {1, 1}, {2, 2}}),
       .timing = {.finds = Finds::unwarmed, .probes = sum_rows_accumulate_probes}},
      {.name = "embedding_sum_grad_weights",
       .inputs = std::vector<InputSpec>{"table", "ids", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dweights"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_sum_grad_weights,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_embedding_sum,
       .alias = never_in_place(),
       .timing = {.finds = Finds::unwarmed, .probes = sum_grad_weights_probes}},
  };
  return ops;
}

}  // namespace snug
