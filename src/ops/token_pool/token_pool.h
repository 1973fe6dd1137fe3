// SPDX-License-Identifier: Apache-2.0
// One vector a row of what each of its tokens has: their mean or their maximum. B rows, T tokens,
// H numbers a token.
//
// masked_mean(x (B, T, H), mask bool(B, T)) -> y (B, H)
//   the mean over the tokens whose mask is true, summed in their order: padding changes no bit.
//   Gradient: dx = masked_mean_grad(mask, dy). Keeps the mask alone.
// masked_mean_grad(mask, dy (B, H)) -> dx (B, T, H): dy / (tokens of the row), 0 where masked.
// masked_max(x, mask) -> y (B, H), token i32(B, H)
//   the largest number of the tokens whose mask is true, and the first token that has it; a NaN is
//   larger than any number. Gradient: dx = masked_max_grad(token, dy). Keeps `token` alone, which
//   is T times smaller than x.
// masked_max_grad(token, dy) {length} -> dx (B, T, H): dy at the token, else 0.
// A row whose tokens are all masked is 0 (its token -1), and so is its gradient. x, y and dy are of
// one type, f32 or 16 bits; sums are f32.
#pragma once

#include "graph/builder.h"

namespace snug {

[[nodiscard]] ValueId masked_mean(GraphBuilder& builder, ValueId x, ValueId mask);
[[nodiscard]] ValueId masked_max(GraphBuilder& builder, ValueId x, ValueId mask);

}  // namespace snug
