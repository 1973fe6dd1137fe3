// SPDX-License-Identifier: Apache-2.0
// Sums and maxima of one row, compiled once a Highway target (see simd-inl.h). The order of
// additions depends on the length only: four vector accumulators, then their lanes.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_BACKEND_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_BACKEND_CPU_ROWS_INL_H_
#undef SNUG_BACKEND_CPU_ROWS_INL_H_
#else
#define SNUG_BACKEND_CPU_ROWS_INL_H_
#endif

#include <limits>

#include "backend/cpu/simd-inl.h"
#include "base/half.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

/// Whole vectors at i, i + L, ... and one tail of n - i elements: load(i, count) with count = -1
/// for a whole vector. Returns the sum of what it gives; lanes of the tail that are not there are
/// left out.
template <class Load>
HWY_INLINE float sum_vectors(int64_t n, const Load& load) {
  const F32 d;
  const int64_t lanes = lanes_f32();
  V32 sum0 = hn::Zero(d);
  V32 sum1 = sum0;
  V32 sum2 = sum0;
  V32 sum3 = sum0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    sum0 = hn::Add(sum0, load(i, int64_t{-1}));
    sum1 = hn::Add(sum1, load(i + lanes, int64_t{-1}));
    sum2 = hn::Add(sum2, load(i + 2 * lanes, int64_t{-1}));
    sum3 = hn::Add(sum3, load(i + 3 * lanes, int64_t{-1}));
  }
  for (; i + lanes <= n; i += lanes) sum0 = hn::Add(sum0, load(i, int64_t{-1}));
  if (i < n) {
    const auto present = hn::FirstN(d, static_cast<size_t>(n - i));
    sum1 = hn::Add(sum1, hn::IfThenElseZero(present, load(i, n - i)));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
}

// Rows in 16 bits: computed in f32, rounded to the nearest (even) when stored, as base/half.h does.
using U16 = hn::Rebind<uint16_t, F32>;
using U32 = hn::Rebind<uint32_t, F32>;

HWY_INLINE V32 from_bits(hn::Vec<U16> bits, Bf16) {
  return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(U32(), bits)));
}
HWY_INLINE hn::Vec<U16> to_bits(V32 v, Bf16) {
  const U32 d;
  const auto bits = hn::BitCast(d, v);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(d, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFF))));
  const auto quiet = hn::Or(upper, hn::Set(d, 0x40));
  const auto is_nan = hn::RebindMask(d, hn::IsNaN(v));
  return hn::DemoteTo(U16(), hn::BitCast(I32(), hn::IfThenElse(is_nan, quiet, rounded)));
}
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
HWY_INLINE V32 from_bits(hn::Vec<U16> bits, F16) {
  return hn::PromoteTo(F32(), hn::BitCast(hn::Rebind<hwy::float16_t, F32>(), bits));
}
HWY_INLINE hn::Vec<U16> to_bits(V32 v, F16) {
  return hn::BitCast(U16(), hn::DemoteTo(hn::Rebind<hwy::float16_t, F32>(), v));
}
#else
// Highway's own way without such instructions does not round numbers below 2^-14 to the nearest.
HWY_INLINE V32 from_bits(hn::Vec<U16> bits, F16) {
  HWY_ALIGN uint16_t from[hn::MaxLanes(U16())];
  HWY_ALIGN float to[hn::MaxLanes(F32())];
  hn::Store(bits, U16(), from);
  for (size_t i = 0; i < hn::Lanes(F32()); ++i) to[i] = to_f32(F16{from[i]});
  return hn::Load(F32(), to);
}
HWY_INLINE hn::Vec<U16> to_bits(V32 v, F16) {
  HWY_ALIGN float from[hn::MaxLanes(F32())];
  HWY_ALIGN uint16_t to[hn::MaxLanes(U16())];
  hn::Store(v, F32(), from);
  for (size_t i = 0; i < hn::Lanes(F32()); ++i) to[i] = to_f16(from[i]).bits;
  return hn::Load(U16(), to);
}
#endif

/// `count` elements at i, or a whole vector where it is -1.
template <class Half>
HWY_INLINE V32 load_at(const Half* src, int64_t i, int64_t count) {
  const auto* bits = reinterpret_cast<const uint16_t*>(src) + i;
  return from_bits(count < 0 ? hn::LoadU(U16(), bits) : load_tail(U16(), bits, count), Half());
}
template <class Half>
HWY_INLINE void store_at(V32 v, Half* dst, int64_t i, int64_t count) {
  auto* bits = reinterpret_cast<uint16_t*>(dst) + i;
  if (count < 0) {
    hn::StoreU(to_bits(v, Half()), U16(), bits);
  } else {
    store_tail(to_bits(v, Half()), U16(), bits, count);
  }
}

HWY_INLINE V32 load_at(const float* src, int64_t i, int64_t count) {
  return count < 0 ? hn::LoadU(F32(), src + i) : load_tail(F32(), src + i, count);
}
HWY_INLINE void store_at(V32 v, float* dst, int64_t i, int64_t count) {
  if (count < 0) {
    hn::StoreU(v, F32(), dst + i);
  } else {
    store_tail(v, F32(), dst + i, count);
  }
}

/// Sum of f(x[i]).
template <class F>
HWY_INLINE float sum_row(const float* x, int64_t n, F f) {
  return sum_vectors(n, [&](int64_t i, int64_t count) HWY_ATTR { return f(load_at(x, i, count)); });
}
/// Sum of f(a[i], b[i]).
template <class F>
HWY_INLINE float sum_row(const float* a, const float* b, int64_t n, F f) {
  return sum_vectors(n, [&](int64_t i, int64_t count)
                            HWY_ATTR { return f(load_at(a, i, count), load_at(b, i, count)); });
}

/// The largest element; -inf for an empty row. A NaN may or may not be seen.
HWY_INLINE float max_row(const float* x, int64_t n) {
  const F32 d;
  const int64_t lanes = lanes_f32();
  const V32 lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  V32 max0 = lowest;
  V32 max1 = lowest;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    max0 = hn::Max(max0, hn::LoadU(d, x + i));
    max1 = hn::Max(max1, hn::LoadU(d, x + i + lanes));
  }
  for (; i + lanes <= n; i += lanes) max0 = hn::Max(max0, hn::LoadU(d, x + i));
  if (i < n) {
    const auto present = hn::FirstN(d, static_cast<size_t>(n - i));
    max1 = hn::Max(max1, hn::IfThenElse(present, load_tail(d, x + i, n - i), lowest));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(max0, max1)));
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#endif
