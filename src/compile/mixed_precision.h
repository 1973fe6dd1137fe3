// SPDX-License-Identifier: Apache-2.0
// A forward graph that stores and computes in 16 bits where that is safe. Which nodes do is decided
// in the four steps of TensorFlow's auto_mixed_precision, by what each op says of itself
// (graph/precision.h):
//   1. ops that are allowed do;
//   2. what is denied does not, nor what may follow it and is not a product;
//   3. what lies between two nodes that do, does;
//   4. what changes no number does as its neighbours do.
// Casts stand between the two kinds of nodes; those of weights run once an update
// (Phase::prologue). Weights, outputs of the graph and losses stay in f32.
//   before   %y = matmul(%x f32, %w f32)   %l = softmax_cross_entropy(%y, ...)
//   after    %x16 = cast(%x)   %w16 = cast(%w) prologue   %y16 = matmul(%x16, %w16)
//            %y = cast(%y16)   %l = softmax_cross_entropy(%y, ...)
#pragma once

#include "compile/changes.h"
#include "graph/op_def.h"

namespace snug::compile {

/// Whether each node stores 16 bits. Throws Error{bad_config} for an override that matches no node
/// which it could change, or whose 16 bits are not those of the others.
[[nodiscard]] IdVector<NodeId, bool> paint(const Graph& graph, const MixedPrecision& precision);

[[nodiscard]] Graph apply_mixed_precision(Graph graph, const MixedPrecision& precision,
                                          const OpRegistry& registry);

}  // namespace snug::compile
