// SPDX-License-Identifier: Apache-2.0
// Products with a weight that is packed before: many products of few rows read the same weight (a
// recurrent net's steps, the micro-batches of an update), and packing it each time takes a part of
// each. Built by compile/pack_weights.h behind the backward part, so neither has a gradient.
// M, N, K are the rows, columns and summed length of the product, W the columns of a panel.
//
// pack_weight(w) {transpose, width} = w in panels (ceil(N / W), K, W), zero beyond N
//   w      f32 (K, N), or (N, K) with transpose
//   width  W: what the kernel of packed_matmul wants (Backend::panel_columns)
// packed_matmul(a, panels, bias?) {columns} = a w + bias, with the bits of matmul's
//   a        f32 (..., K)
//   columns  N
//   bias     (N), or of the product's own shape
#pragma once

#include "graph/builder.h"

namespace snug {

[[nodiscard]] ValueId pack_weight(GraphBuilder& builder, ValueId w, bool transpose, int64_t width);
[[nodiscard]] bool is_packing(const Node& node);
[[nodiscard]] ValueId packed_matmul(GraphBuilder& builder, ValueId a, ValueId panels,
                                    int64_t columns, ValueId bias = kNone);

}  // namespace snug
