// SPDX-License-Identifier: Apache-2.0
// Transposition of a matrix in cache-sized tiles, shared by the transpose op and by matrix products that compute the
// transposed result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace snug {

// A tile of src and its image both stay in the first-level cache; 16 floats are one cache line of the destination.
inline constexpr int64_t kTransposeTile = 16;

/// dst(cols, rows) = src(rows, cols)^T, or += with Accumulate; row strides in elements. One thread.
template <bool Accumulate, class T>
void transpose_strided(const T* src, int64_t src_stride, T* dst, int64_t dst_stride, int64_t rows, int64_t cols) {
  T tile[kTransposeTile][kTransposeTile];
  for (int64_t r0 = 0; r0 < rows; r0 += kTransposeTile) {
    const int64_t r_count = std::min(kTransposeTile, rows - r0);
    for (int64_t c0 = 0; c0 < cols; c0 += kTransposeTile) {
      const int64_t c_count = std::min(kTransposeTile, cols - c0);
      for (int64_t r = 0; r < r_count; ++r) {
        const T* line = src + (r0 + r) * src_stride + c0;
        for (int64_t c = 0; c < c_count; ++c) tile[c][r] = line[c];
      }
      for (int64_t c = 0; c < c_count; ++c) {
        T* line = dst + (c0 + c) * dst_stride + r0;
        if constexpr (Accumulate) {
          for (int64_t r = 0; r < r_count; ++r) line[r] += tile[c][r];
        } else {
          std::memcpy(line, tile[c], static_cast<size_t>(r_count) * sizeof(T));
        }
      }
    }
  }
}

/// Dense src (rows, cols) to dense dst (cols, rows) on several threads; each element is written once.
void transpose_matrix(int threads, const float* src, float* dst, int64_t rows, int64_t cols, bool accumulate) noexcept;

}  // namespace snug
