// SPDX-License-Identifier: Apache-2.0
// Transposition of a matrix in strips that suit caches and pages, shared by the transpose op and by
// matrix products that compute the transposed result.
#pragma once

#include <algorithm>
#include <cstdint>

namespace snug {

// Columns of src that are done together: four neighbouring cache lines of each page of src are read
// at once.
inline constexpr int64_t kTransposeStrip = 64;

/// dst(cols, rows) = src(rows, cols)^T for any element type; row strides in elements. One thread.
template <class T>
void transpose_strided(const T* src, int64_t src_stride, T* dst, int64_t dst_stride, int64_t rows,
                       int64_t cols) {
  constexpr int64_t kTileRows = 16;
  for (int64_t strip = 0; strip < cols; strip += kTransposeStrip) {
    for (int64_t r0 = 0; r0 < rows; r0 += kTileRows) {
      const int64_t r_end = std::min(rows, r0 + kTileRows);
      for (int64_t c = strip; c < std::min(cols, strip + kTransposeStrip); ++c) {
        for (int64_t r = r0; r < r_end; ++r) dst[c * dst_stride + r] = src[r * src_stride + c];
      }
    }
  }
}

/// The same for f32 with vectors; dst += src^T with accumulate.
void transpose_strided_f32(const float* src, int64_t src_stride, float* dst, int64_t dst_stride,
                           int64_t rows, int64_t cols, bool accumulate) noexcept;

/// Dense src (rows, cols) to dense dst (cols, rows) on several threads; each element is written
/// once.
void transpose_matrix(int threads, const float* src, float* dst, int64_t rows, int64_t cols,
                      bool accumulate) noexcept;

}  // namespace snug
