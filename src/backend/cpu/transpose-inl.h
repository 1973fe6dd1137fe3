// SPDX-License-Identifier: Apache-2.0
// Transposition of f32 in registers, compiled once a Highway target (see simd-inl.h). Gathers would
// do the same with one instruction a column, and take four times as long with AVX2.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_BACKEND_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_BACKEND_CPU_TRANSPOSE_INL_H_
#undef SNUG_BACKEND_CPU_TRANSPOSE_INL_H_
#else
#define SNUG_BACKEND_CPU_TRANSPOSE_INL_H_
#endif

#include "backend/cpu/simd-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// Columns of a transposition: 8 where there are so many lanes, else 4, or one without any SIMD.
// Shuffles of wider vectors would move blocks of four lanes as well, at a higher price.
using Across = hn::CappedTag<float, 8>;
using VAcross = hn::Vec<Across>;

/// columns[c] = element c of as many rows as Across has lanes.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void load_across(const float* src, int64_t, VAcross* columns) {
  for (int64_t c = 0; c < 4; ++c) columns[c] = hn::LoadU(Across(), src + c);
}
#else
// Elements [0, 4) of row 0 in lanes 0 to 3, of row 4 in lanes 4 to 7.
HWY_INLINE VAcross load_rows(const float* src, int64_t stride) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const hn::Half<Across> half;
  return hn::Combine(Across(), hn::LoadU(half, src + 4 * stride), hn::LoadU(half, src));
#else
  (void)stride;
  return hn::LoadU(Across(), src);
#endif
}

HWY_INLINE void load_across(const float* src, int64_t stride, VAcross* columns) {
  const Across d;
  const hn::RepartitionToWide<Across> pairs;
  const auto r0 = load_rows(src, stride);
  const auto r1 = load_rows(src + stride, stride);
  const auto r2 = load_rows(src + 2 * stride, stride);
  const auto r3 = load_rows(src + 3 * stride, stride);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  columns[0] = hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23));
  columns[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23));
  columns[2] = hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23));
  columns[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23));
}
#endif

/// dst[k * dst_stride + i] = src[i * src_stride + k] for i in [0, rows) and k in [0, columns).
inline void transpose_into(const float* src, int64_t src_stride, int64_t rows, int64_t columns,
                           float* dst, int64_t dst_stride) {
  int64_t i = 0;
  const Across d;
  const auto at_once = static_cast<int64_t>(hn::Lanes(d));
  for (; i + at_once <= rows; i += at_once) {
    const float* from = src + i * src_stride;
    float* to = dst + i;
    int64_t k = 0;
    for (; k + 4 <= columns; k += 4) {
      VAcross across[4];
      load_across(from + k, src_stride, across);
      for (int64_t c = 0; c < 4; ++c) hn::StoreU(across[c], d, to + (k + c) * dst_stride);
    }
    for (; k < columns; ++k) {
      for (int64_t r = 0; r < at_once; ++r) to[k * dst_stride + r] = from[r * src_stride + k];
    }
  }
  for (; i < rows; ++i) {
    for (int64_t k = 0; k < columns; ++k) dst[k * dst_stride + i] = src[i * src_stride + k];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#endif
