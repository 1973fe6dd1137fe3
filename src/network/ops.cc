// SPDX-License-Identifier: Apache-2.0
#include "snug/ops.h"

#include "network/facts.h"
#include "ops/attention/attention.h"
#include "ops/dropout/dropout.h"
#include "ops/elementwise/elementwise.h"
#include "ops/embedding/embedding.h"
#include "ops/lstm/lstm.h"
#include "ops/matmul/matmul.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "snug/error.h"

namespace snug {

using network::tensor_in;

namespace {

GraphBuilder& graph_of(const Tensor& x) { return x.builder().state().graph; }

ValueId id_in(const Tensor& first, const Tensor& x) {
  return network::value_of(first.builder(), x, "operand");
}

template <class Op>
Tensor unary(const Tensor& x, Op op) {
  return tensor_in(x.builder(), op(graph_of(x), id_in(x, x)));
}

using BinaryOp = ValueId (*)(GraphBuilder&, ValueId, ValueId);
Tensor binary(const Tensor& a, const Tensor& b, BinaryOp op) {
  return tensor_in(a.builder(), op(graph_of(a), id_in(a, a), id_in(a, b)));
}

ValueId optional_id(const Tensor& first, const Tensor& x) { return x ? id_in(first, x) : kNone; }

}  // namespace

Tensor operator+(const Tensor& a, const Tensor& b) { return binary(a, b, add); }
Tensor operator-(const Tensor& a, const Tensor& b) { return binary(a, b, sub); }
Tensor operator*(const Tensor& a, const Tensor& b) { return binary(a, b, mul); }
Tensor operator/(const Tensor& a, const Tensor& b) { return binary(a, b, div); }
Tensor operator-(const Tensor& x) { return unary(x, neg); }
Tensor operator*(double factor, const Tensor& x) {
  return tensor_in(x.builder(), scale(graph_of(x), id_in(x, x), factor));
}

#define SNUG_UNARY(name)                                                            \
  Tensor name(const Tensor& x) {                                                    \
    return unary(x, [](GraphBuilder& b, ValueId id) { return snug::name(b, id); }); \
  }
SNUG_UNARY(exp)
SNUG_UNARY(log)
SNUG_UNARY(sqrt)
SNUG_UNARY(rsqrt)
SNUG_UNARY(tanh)
SNUG_UNARY(erf)
SNUG_UNARY(sigmoid)
SNUG_UNARY(relu)
SNUG_UNARY(gelu)
#undef SNUG_UNARY

#define SNUG_BINARY(name)                                                                     \
  Tensor name(const Tensor& a, const Tensor& b) {                                             \
    return binary(a, b,                                                                       \
                  [](GraphBuilder& g, ValueId x, ValueId y) { return snug::name(g, x, y); }); \
  }
SNUG_BINARY(equal)
SNUG_BINARY(not_equal)
SNUG_BINARY(less)
SNUG_BINARY(less_equal)
SNUG_BINARY(greater)
SNUG_BINARY(greater_equal)
#undef SNUG_BINARY

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return tensor_in(condition.builder(), where(graph_of(condition), id_in(condition, condition),
                                              id_in(condition, a), id_in(condition, b)));
}

Tensor cast(const Tensor& x, DType to) {
  return tensor_in(x.builder(), cast(graph_of(x), id_in(x, x), to));
}

Tensor fill(NetworkBuilder& builder, double value, const Shape& shape) {
  return tensor_in(builder, fill(builder.state().graph, value, shape));
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  return tensor_in(x.builder(), reshape(graph_of(x), id_in(x, x), shape));
}

Tensor transpose(const Tensor& x, const std::vector<int64_t>& order) {
  return tensor_in(x.builder(), transpose(graph_of(x), id_in(x, x), order));
}

Tensor slice(const Tensor& x, int64_t axis, int64_t start, int64_t stop) {
  return tensor_in(x.builder(), slice(graph_of(x), id_in(x, x), axis, start, stop));
}

Tensor pad(const Tensor& x, int64_t axis, int64_t before, int64_t after) {
  return tensor_in(x.builder(), pad(graph_of(x), id_in(x, x), axis, before, after));
}

Tensor concat(const std::vector<Tensor>& parts, int64_t axis) {
  if (parts.empty()) throw Error(ErrorCode::invalid_graph, "concat", "there is nothing to join");
  std::vector<ValueId> ids;
  for (const Tensor& part : parts) ids.push_back(id_in(parts.front(), part));
  return tensor_in(parts.front().builder(), concat(graph_of(parts.front()), ids, axis));
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  return tensor_in(x.builder(), broadcast_to(graph_of(x), id_in(x, x), shape));
}

Tensor upsample_nearest(const Tensor& x, int64_t factor) {
  const Shape s = x.shape();
  if (s.size() != 4 || factor < 1)
    throw Error(ErrorCode::shape_mismatch, "upsample_nearest",
                "images are (N, H, W, C) and the factor at least 1, not " + to_string(x.type()) +
                    " times " + std::to_string(factor));
  const Shape repeated = {s[0], s[1], factor, s[2], factor, s[3]};
  const Shape larger = {s[0], s[1] * factor, s[2] * factor, s[3]};
  return reshape(broadcast_to(reshape(x, {s[0], s[1], 1, s[2], 1, s[3]}), repeated), larger);
}

Tensor reduce_sum(const Tensor& x, const std::vector<int64_t>& axes, bool keep_dims) {
  return tensor_in(x.builder(), reduce_sum(graph_of(x), id_in(x, x), axes, keep_dims));
}
Tensor reduce_mean(const Tensor& x, const std::vector<int64_t>& axes, bool keep_dims) {
  return tensor_in(x.builder(), reduce_mean(graph_of(x), id_in(x, x), axes, keep_dims));
}
Tensor reduce_max(const Tensor& x, const std::vector<int64_t>& axes, bool keep_dims) {
  return tensor_in(x.builder(), reduce_max(graph_of(x), id_in(x, x), axes, keep_dims));
}

Tensor matmul(const Tensor& a, const Tensor& b, MatmulFlags flags) {
  return tensor_in(a.builder(),
                   matmul(graph_of(a), id_in(a, a), id_in(a, b),
                          {.transpose_a = flags.transpose_a, .transpose_b = flags.transpose_b}));
}

Tensor softmax(const Tensor& x, int64_t axis) {
  return tensor_in(x.builder(), softmax(graph_of(x), id_in(x, x), axis));
}

Tensor masked_softmax(const Tensor& x, const Tensor& mask) {
  return tensor_in(x.builder(), masked_softmax(graph_of(x), id_in(x, x), id_in(x, mask)));
}

Tensor max_pool2d(const Tensor& x, const Window2d& window) {
  return tensor_in(x.builder(), max_pool2d(graph_of(x), id_in(x, x),
                                           {.kernel = {window.kernel, window.kernel},
                                            .stride = {window.stride, window.stride},
                                            .padding = {window.padding, window.padding}}));
}

Tensor gather_rows(const Tensor& table, const Tensor& ids) {
  return tensor_in(table.builder(),
                   embedding(graph_of(table), id_in(table, table), id_in(table, ids)));
}

Tensor gather_sum(const Tensor& table, const Tensor& ids, const Tensor& weights) {
  return tensor_in(table.builder(), embedding_sum(graph_of(table), id_in(table, table),
                                                  id_in(table, ids), id_in(table, weights)));
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                 const AttentionFlags& flags) {
  NetworkBuilder& builder = q.builder();
  const bool drops = builder.training() && flags.dropout > 0;
  const ValueId key = drops ? network::shared_random_key(builder) : kNone;
  return tensor_in(builder, attention(graph_of(q), id_in(q, q), id_in(q, k), id_in(q, v),
                                      {.heads = flags.heads,
                                       .mask = optional_id(q, mask),
                                       .rng = key,
                                       .rate = drops ? flags.dropout : 0})
                                .o);
}

Tensor dropout(const Tensor& x, double rate) {
  NetworkBuilder& builder = x.builder();
  if (rate == 0 || !builder.training()) return x;
  return tensor_in(builder,
                   dropout(graph_of(x), id_in(x, x), network::shared_random_key(builder), rate));
}

LstmTensors lstm_cell(const Tensor& gates, const LstmTensors& state, const Tensor& mask) {
  NetworkBuilder& builder = gates.builder();
  GraphBuilder& graph = graph_of(gates);
  ValueId goes_on = optional_id(gates, mask);
  if (goes_on == kNone) {
    const ValueId one = fill(graph, 1, {gates.dim(0)});
    goes_on = equal(graph, one, one);
  }
  const LstmState next =
      lstm_cell(graph, id_in(gates, gates),
                {.h = id_in(gates, state.h), .c = id_in(gates, state.c)}, goes_on);
  return {tensor_in(builder, next.h), tensor_in(builder, next.c)};
}

}  // namespace snug
