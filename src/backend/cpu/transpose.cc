// SPDX-License-Identifier: Apache-2.0
// Rows of src are stored as whole lines of dst: narrow stores would fill the store buffer while the
// lines, each in another page, are fetched.
#include "backend/cpu/transpose.h"

#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/transpose.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// Lines of dst, of two registers.
template <bool kAccumulates>
void transpose_rows(const float* src, int64_t src_stride, float* dst, int64_t dst_stride,
                    int64_t rows, int64_t cols) {
  const Across d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto move = [&](int64_t r, int64_t c) HWY_ATTR {
    const float value = src[r * src_stride + c];
    float* const to = dst + c * dst_stride + r;
    *to = kAccumulates ? *to + value : value;
  };
  int64_t r = 0;
  for (; r + 2 * lanes <= rows; r += 2 * lanes) {
    int64_t c = 0;
    for (; c + 4 <= cols; c += 4) {
      VAcross low[4], high[4];
      load_across(src + r * src_stride + c, src_stride, low);
      load_across(src + (r + lanes) * src_stride + c, src_stride, high);
      for (int64_t i = 0; i < 4; ++i) {
        float* const to = dst + (c + i) * dst_stride + r;
        if (kAccumulates) {
          low[i] = hn::Add(low[i], hn::LoadU(d, to));
          high[i] = hn::Add(high[i], hn::LoadU(d, to + lanes));
        }
        hn::StoreU(low[i], d, to);
        hn::StoreU(high[i], d, to + lanes);
      }
    }
    for (; c < cols; ++c) {
      for (int64_t i = 0; i < 2 * lanes; ++i) move(r + i, c);
    }
  }
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) move(r, c);
  }
}

void transpose_f32(const float* src, int64_t src_stride, float* dst, int64_t dst_stride,
                   int64_t rows, int64_t cols, bool accumulate) {
  for (int64_t strip = 0; strip < cols; strip += kTransposeStrip) {
    const int64_t width = HWY_MIN(cols - strip, kTransposeStrip);
    float* const to = dst + strip * dst_stride;
    if (accumulate) {
      transpose_rows<true>(src + strip, src_stride, to, dst_stride, rows, width);
    } else {
      transpose_rows<false>(src + strip, src_stride, to, dst_stride, rows, width);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace snug {

HWY_EXPORT(transpose_f32);

void transpose_strided_f32(const float* src, int64_t src_stride, float* dst, int64_t dst_stride,
                           int64_t rows, int64_t cols, bool accumulate) noexcept {
  HWY_DYNAMIC_DISPATCH(transpose_f32)(src, src_stride, dst, dst_stride, rows, cols, accumulate);
}

void transpose_matrix(int threads, const float* src, float* dst, int64_t rows, int64_t cols,
                      bool accumulate) noexcept {
  // Each thread owns rows of dst, that is columns of src.
  parallel_for(threads, cols, kTransposeStrip, [&](int64_t begin, int64_t end) {
    transpose_strided_f32(src + begin, cols, dst + begin * rows, rows, rows, end - begin,
                          accumulate);
  });
}

}  // namespace snug
#endif
