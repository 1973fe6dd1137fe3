// SPDX-License-Identifier: Apache-2.0
// Ops that move elements. All but sum_to take any element type; the gradients keep nothing.
//
//   reshape(x) {shape}             the same elements in the same order; one dim may be -1. A view:
//   no kernel runs
//                                  dx = reshape(dy)
//   transpose(x) {perm}            y.shape[i] = x.shape[perm[i]]; dx = transpose by the inverse
//   slice(x) {axis, start, stop}   elements [start, stop) along an axis; dx = pad(dy)
//   pad(x) {axis, before, after}   zeros around x along an axis; dx = slice(dy)
//   concat(x...) {axis}            dx_i = slice(dy)
//   broadcast_to(x) {shape}        numpy's rule; dx = sum_to(dy)
//   sum_to(x) {shape}              sums x over the dims that broadcasting `shape` to x's shape
//   would repeat;
//                                  dx = broadcast_to(dy)
// An axis may be negative.
#pragma once

#include <span>

#include "graph/builder.h"

namespace snug {

[[nodiscard]] ValueId reshape(GraphBuilder& builder, ValueId x, const Shape& shape);
[[nodiscard]] ValueId transpose(GraphBuilder& builder, ValueId x, const std::vector<int64_t>& perm);
[[nodiscard]] ValueId slice(GraphBuilder& builder, ValueId x, int64_t axis, int64_t start,
                            int64_t stop);
[[nodiscard]] ValueId pad(GraphBuilder& builder, ValueId x, int64_t axis, int64_t before,
                          int64_t after);
[[nodiscard]] ValueId concat(GraphBuilder& builder, std::span<const ValueId> parts, int64_t axis);
/// x itself where it has this shape already.
[[nodiscard]] ValueId broadcast_to(GraphBuilder& builder, ValueId x, const Shape& shape);
/// x itself where it has this shape already.
[[nodiscard]] ValueId sum_to(GraphBuilder& builder, ValueId x, const Shape& shape);

}  // namespace snug
