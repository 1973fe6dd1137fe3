// SPDX-License-Identifier: Apache-2.0
// Row-sparse gradients. The gradient of a table of embeddings has as many rows as the vocabulary,
// of which those of the batch's tokens are not zero. Where all that reads it is its norm and its
// update, only these are made.
#pragma once

#include "graph/graph.h"
#include "graph/op_def.h"

namespace snug::compile {

/// Puts the sparse form of a gradient's op (OpDef::sparse_form) in its place where every reader
/// takes a row-sparse matrix (OpDef::sparse_operand). Weights get the bits that they get of the
/// whole gradient; the sum of its squares adds up in another order.
[[nodiscard]] Graph row_sparse(Graph graph, const OpRegistry& registry);

}  // namespace snug::compile
