// SPDX-License-Identifier: Apache-2.0
// Sums and maxima of one row, compiled once a Highway target (see simd-inl.h). The order of
// additions depends on the length alone: four vector accumulators, then their lanes.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_BACKEND_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_BACKEND_CPU_ROWS_INL_H_
#undef SNUG_BACKEND_CPU_ROWS_INL_H_
#else
#define SNUG_BACKEND_CPU_ROWS_INL_H_
#endif

#include <limits>

#include "backend/cpu/simd-inl.h"
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
