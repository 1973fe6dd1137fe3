// SPDX-License-Identifier: Apache-2.0
// Row-sparse gradients. The gradient of a table of embeddings has as many rows as the vocabulary,
// of which those of the batch's tokens are not zero. Where all that reads it is its norm and its
// update, only these are made.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "graph/graph.h"
#include "graph/op_def.h"

namespace snug::compile {

/// How many rows a row-sparse sum has, by weight.
using RowSparseSums = std::map<std::string, int64_t>;

/// Puts the sparse form of a gradient's op (OpDef::sparse_form) in its place where every reader
/// takes a row-sparse matrix (OpDef::sparse_operand). Weights get the bits that they get of the
/// whole gradient; the sum of its squares adds up in another order.
[[nodiscard]] Graph row_sparse(Graph graph, const OpRegistry& registry);

/// The same for what is summed in a state over the uses of a weight and the micro-batches of an
/// update: the states of these weights' gradients have so many rows, and two more beside each say
/// which they are ("grad.NAME.row_of") and how many ("grad.NAME.count").
[[nodiscard]] Graph row_sparse_sums(Graph graph, const OpRegistry& registry,
                                    const RowSparseSums& sums);

/// The weights whose sums can be row-sparse: where all that is added to one has a sparse form and
/// at most half of the rows can occur in an update. `train` sums the gradients of a whole batch,
/// `update` reads the sums.
[[nodiscard]] RowSparseSums find_row_sparse_sums(const Graph& train, const Graph& update);

}  // namespace snug::compile
