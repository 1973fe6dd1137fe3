// SPDX-License-Identifier: Apache-2.0
// A column of src is gathered into one vector and stored as one line of dst: narrow stores would
// fill the store buffer while the lines of dst, each in another page, are fetched.
#include "backend/cpu/transpose.h"

#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/transpose.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

void transpose_f32(const float* src, int64_t src_stride, float* dst, int64_t dst_stride,
                   int64_t rows, int64_t cols, bool accumulate) {
  const F32 d;
  const I32 di;
  const int64_t lanes = lanes_f32();
  const bool fits = src_stride < (int64_t{1} << 26);  // offsets of a gather are 32 bits
  const auto offsets =
      hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(fits ? src_stride : 0)));
  for (int64_t strip = 0; strip < cols; strip += kTransposeStrip) {
    const int64_t strip_end = HWY_MIN(cols, strip + kTransposeStrip);
    int64_t r = 0;
    for (; fits && r + lanes <= rows; r += lanes) {
      for (int64_t c = strip; c < strip_end; ++c) {
        auto line = hn::GatherIndex(d, src + r * src_stride + c, offsets);
        float* to = dst + c * dst_stride + r;
        if (accumulate) line = hn::Add(line, hn::LoadU(d, to));
        hn::StoreU(line, d, to);
      }
    }
    for (; r < rows; ++r) {
      for (int64_t c = strip; c < strip_end; ++c) {
        const float value = src[r * src_stride + c];
        float* to = dst + c * dst_stride + r;
        *to = accumulate ? *to + value : value;
      }
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
