// SPDX-License-Identifier: Apache-2.0
// Gathering rows of a table by id. V rows of H numbers; ids may have any shape.
//
// embedding(table (V, H), ids i32(...)) {to} -> (..., H): row ids[i] of the table, stored in the
// type `to` (f32, bf16, f16). The table and its gradient are f32, whatever its rows become.
// embedding_grad(ids, dy (..., H)) {rows} -> (rows, H): every dy row added to the row of its id,
// zeros elsewhere. embedding_grad_accumulate(acc (V, H), ids, dy) = acc + embedding_grad(ids, dy),
// in acc's own bytes. The gradient keeps ids. An id outside [0, V) is Error{bad_data} when the op
// runs. The order of additions does not depend on the number of threads.
#pragma once

#include <optional>

#include "graph/builder.h"

namespace snug {

[[nodiscard]] ValueId embedding(GraphBuilder& builder, ValueId table, ValueId ids,
                                DType to = DType::f32);

/// The gradient of the table, for an op (table, ids, ...) that gives rows by id.
[[nodiscard]] ValueId table_gradient(const VjpArgs& args);
/// Each id by itself, from a table that is the same for all.
[[nodiscard]] int row_flow_of_gather(const RowFlowArgs& args);
/// Its table is input 0.
[[nodiscard]] std::optional<size_t> table_of_gather(const Attrs& attrs);

}  // namespace snug
