// SPDX-License-Identifier: Apache-2.0
// Products and rows of weights that are stored in fewer bits than f32, decoded in the kernel panel
// by panel. A weight of R rows and C columns is
//   bf16 or bf16x8 (R, C), or, where it is frozen,
//   u8 (R, C) with scales f32 (R, blocks): element (r, c) is scales[r, c / 256] (code - 128), and a
//   block's scale is the largest of its magnitudes / 127. 0 is exact.
//
// coded_matmul(a, weight, scales?, bias?) {transpose_b} = a op(weight) + bias
//   a     (..., C) with transpose_b, else (..., R); all leading dims are rows
//   bias  a row, or of the product's own shape
//   Gradient: da = dy op(weight)^T, dbias = sum of dy over rows, or dy itself, and dweight =
//   dy^T a or its transpose, f32. Keeps the weight, and a where the weight is trained.
// coded_embedding(weight, ids, scales?) {to} -> (..., C): rows of the weight by id. Gradient: that
//   of embedding.
// coded_embedding_sum(weight, ids (..., T), weights (..., T), scales?) -> (..., C): the sum of rows
//   by id times their weights, as embedding_sum's and with its gradients. Keeps what that keeps.
// upper_half(weight) -> bf16: a view of the bf16 that a bf16x8 begins with, the nearest to it.
//   To gradients it is its weight (OpDef::is_conversion).
#pragma once

#include <span>

#include "graph/builder.h"

namespace snug {

inline constexpr int64_t kCodedBlock = 256;  // elements of a row that have one scale

[[nodiscard]] constexpr int64_t coded_blocks(int64_t columns) {
  return (columns + kCodedBlock - 1) / kCodedBlock;
}
/// One row in 8 bits, and back.
void encode_coded_row(std::span<const float> row, std::span<uint8_t> codes,
                      std::span<float> scales);
void decode_coded_row(std::span<const uint8_t> codes, std::span<const float> scales,
                      std::span<float> row);

[[nodiscard]] ValueId upper_half(GraphBuilder& builder, ValueId weight);

}  // namespace snug
