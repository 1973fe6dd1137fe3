// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/transpose.h"

#include "base/threads.h"

namespace snug {

void transpose_matrix(int threads, const float* src, float* dst, int64_t rows, int64_t cols, bool accumulate) noexcept {
  // Each thread owns rows of dst, that is columns of src.
  parallel_for(threads, cols, kTransposeTile, [&](int64_t begin, int64_t end) {
    if (accumulate) {
      transpose_strided<true>(src + begin, cols, dst + begin * rows, rows, rows, end - begin);
    } else {
      transpose_strided<false>(src + begin, cols, dst + begin * rows, rows, rows, end - begin);
    }
  });
}

}  // namespace snug
