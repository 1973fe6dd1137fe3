// SPDX-License-Identifier: Apache-2.0
// Products and rows of frozen weights that are stored in 16 or 8 bits, decoded in the kernel panel
// by panel. A weight of R rows and C columns is
//   bf16 (R, C), or
//   u8 (R, C) with scales f32 (R, blocks): element (r, c) is scales[r, c / 256] (code - 128), and a
//   block's scale is the largest of its magnitudes / 127. 0 is exact.
//
// frozen_matmul(a, weight, scales?, bias?) {transpose_b} = a op(weight) + bias
//   a     (..., C) with transpose_b, else (..., R); all leading dims are rows
//   bias  a row, or of the product's own shape
//   Gradient: da = dy op(weight)^T, dbias = sum of dy over rows, or dy itself. Keeps the weight
//   alone.
// frozen_embedding(weight, ids, scales?) -> (..., C): rows of the weight by id. Not differentiable.
#pragma once

#include <span>

#include "graph/builder.h"

namespace snug {

inline constexpr int64_t kFrozenBlock = 256;  // elements of a row that have one scale

[[nodiscard]] constexpr int64_t frozen_blocks(int64_t columns) {
  return (columns + kFrozenBlock - 1) / kFrozenBlock;
}
/// One row in 8 bits, and back.
void encode_frozen_row(std::span<const float> row, std::span<uint8_t> codes,
                       std::span<float> scales);
void decode_frozen_row(std::span<const uint8_t> codes, std::span<const float> scales,
                       std::span<float> row);

}  // namespace snug
