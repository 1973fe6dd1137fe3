// SPDX-License-Identifier: Apache-2.0
// Gathering rows of a table by id, and sums of such rows. V rows of H numbers; ids may have any
// shape.
//
// embedding(table (V, H), ids i32(...)) {to} -> (..., H): row ids[i] of the table, stored in the
// type `to` (f32, bf16, f16). The table and its gradient are f32, whatever its rows become.
// embedding_grad(ids, dy (..., H)) {rows} -> (rows, H): every dy row added to the row of its id,
// zeros elsewhere. embedding_grad_accumulate(acc (V, H), ids, dy) = acc + embedding_grad(ids, dy),
// in acc's own bytes. embedding_grad_rows(ids (N in all), dy (..., H)) {rows} -> f32 (N, H), i32
// (rows): the same gradient row-sparse, the rows that ids name in the order in which they first
// occur, with zeros behind them, and which of these each row is, -1 where no id names it. The
// gradient keeps ids. An id outside [0, V) is Error{bad_data} when the op
// runs. The order of additions does not depend on the number of threads.
//
// embedding_sum(table (V, H), ids i32(..., T), weights (..., T)) -> (..., H): the sum over the last
// axis of weights[t] times row ids[t], in the order of t (PyTorch's EmbeddingBag with mode="sum"
// and per_sample_weights). A weight of 0 adds nothing, whatever its row holds. No row is stored
// between table and sum, so all is f32 also where a network computes in 16 bits.
// embedding_sum_grad(ids, weights, dy (..., H)) {rows} -> (rows, H): weights[t] dy added to row
// ids[t]; embedding_sum_grad_accumulate(acc (V, H), ids, weights, dy) adds it to acc in acc's
// bytes; embedding_sum_grad_rows(ids, weights, dy) {rows} is row-sparse as embedding_grad_rows is.
// embedding_sum_grad_weights(table, ids, dy) -> (..., T): the product of row ids[t] with dy. The
// gradients keep ids, that of the table the weights, that of the weights the table.
#pragma once

#include <optional>

#include "graph/builder.h"

namespace snug {

[[nodiscard]] ValueId embedding(GraphBuilder& builder, ValueId table, ValueId ids,
                                DType to = DType::f32);

[[nodiscard]] ValueId embedding_sum(GraphBuilder& builder, ValueId table, ValueId ids,
                                    ValueId weights);

/// The gradient of the table, for an op (table, ids, ...) that gives rows by id.
[[nodiscard]] ValueId table_gradient(const VjpArgs& args);
/// The same for an op (table, ids, weights, ...) that sums them; kNone where it is not wanted.
[[nodiscard]] ValueId table_gradient_of_sum(const VjpArgs& args);
/// Each id by itself, from a table that is the same for all.
[[nodiscard]] int row_flow_of_gather(const RowFlowArgs& args);
/// Each sum by itself.
[[nodiscard]] int row_flow_of_sum(const RowFlowArgs& args);
/// Its shape; checks ids and weights.
[[nodiscard]] Shape shape_of_embedding_sum(const InferArgs& args);
/// Its table is input 0.
[[nodiscard]] std::optional<size_t> table_of_gather(const Attrs& attrs);

}  // namespace snug
