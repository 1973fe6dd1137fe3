// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/transpose.h"

#include <algorithm>
#include <cstring>

#include "base/threads.h"

namespace snug {
namespace {

// A tile of src and its image both stay in the first-level cache; 16 floats are one cache line of the destination.
constexpr int64_t kTile = 16;

template <bool Accumulate>
void transpose_tiles(const float* src, int64_t src_stride, float* dst, int64_t dst_stride, int64_t rows, int64_t cols) {
  float tile[kTile][kTile];
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const int64_t r_count = std::min(kTile, rows - r0);
    for (int64_t c0 = 0; c0 < cols; c0 += kTile) {
      const int64_t c_count = std::min(kTile, cols - c0);
      for (int64_t r = 0; r < r_count; ++r) {
        const float* line = src + (r0 + r) * src_stride + c0;
        for (int64_t c = 0; c < c_count; ++c) tile[c][r] = line[c];
      }
      for (int64_t c = 0; c < c_count; ++c) {
        float* line = dst + (c0 + c) * dst_stride + r0;
        if constexpr (Accumulate) {
          for (int64_t r = 0; r < r_count; ++r) line[r] += tile[c][r];
        } else {
          std::memcpy(line, tile[c], static_cast<size_t>(r_count) * sizeof(float));
        }
      }
    }
  }
}

}  // namespace

void transpose_tile_rows(const float* src, int64_t src_stride, float* dst, int64_t dst_stride, int64_t rows,
                         int64_t cols) {
  transpose_tiles<false>(src, src_stride, dst, dst_stride, rows, cols);
}

void add_transposed_tile_rows(const float* src, int64_t src_stride, float* dst, int64_t dst_stride, int64_t rows,
                              int64_t cols) {
  transpose_tiles<true>(src, src_stride, dst, dst_stride, rows, cols);
}

void transpose_matrix(int threads, const float* src, float* dst, int64_t rows, int64_t cols, bool accumulate) noexcept {
  // Each thread owns rows of dst, that is columns of src.
  parallel_for(threads, cols, kTile, [&](int64_t begin, int64_t end) {
    const auto run = accumulate ? add_transposed_tile_rows : transpose_tile_rows;
    run(src + begin, cols, dst + begin * rows, rows, rows, end - begin);
  });
}

}  // namespace snug
