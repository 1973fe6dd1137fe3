// SPDX-License-Identifier: Apache-2.0
// Transposition of a matrix in cache-sized tiles, shared by the transpose op and by matrix products that compute the
// transposed result.
#pragma once

#include <cstdint>

namespace snug {

/// dst(cols, rows) = src(rows, cols)^T for 4-byte elements; strides in elements. One thread.
void transpose_tile_rows(const float* src, int64_t src_stride, float* dst, int64_t dst_stride, int64_t rows,
                         int64_t cols);
/// dst += src^T, the same shapes.
void add_transposed_tile_rows(const float* src, int64_t src_stride, float* dst, int64_t dst_stride, int64_t rows,
                              int64_t cols);

/// The same over the whole matrix on several threads: dst (cols, rows) dense, src (rows, cols) dense.
void transpose_matrix(int threads, const float* src, float* dst, int64_t rows, int64_t cols, bool accumulate) noexcept;

}  // namespace snug
