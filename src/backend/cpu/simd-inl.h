// SPDX-License-Identifier: Apache-2.0
// SIMD helpers for kernel files, compiled once a Highway target. The house pattern of a file that
// uses it:
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "ops/optimizer/optimizer_cpu.cc"   // this file, from src/
//   #include "hwy/foreach_target.h"  // IWYU pragma: keep
//   #include "hwy/highway.h"
//   #include "backend/cpu/simd-inl.h"
//   HWY_BEFORE_NAMESPACE();
//   namespace snug {
//   namespace HWY_NAMESPACE {
//   void add_rows(const float* a, ...) { ... }          // compiled for every target; no static
//   data in here }  // namespace HWY_NAMESPACE }  // namespace snug HWY_AFTER_NAMESPACE(); #if
//   HWY_ONCE namespace snug { HWY_EXPORT(add_rows);                               // ...
//   HWY_DYNAMIC_DISPATCH(add_rows)(a, ...) }  // namespace snug #endif
//
// Lambdas do not inherit a function's target attribute with GCC 12: pass functors marked HWY_ATTR,
// or lambdas written
// [&](auto v) HWY_ATTR { ... }. parallel_for bodies call back into HWY_NAMESPACE functions, so
// dispatch outside of the parallel loop and let the body call the chosen function.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_BACKEND_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_BACKEND_CPU_SIMD_INL_H_
#undef SNUG_BACKEND_CPU_SIMD_INL_H_
#else
#define SNUG_BACKEND_CPU_SIMD_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using I32 = hn::ScalableTag<int32_t>;
using V32 = hn::Vec<F32>;

HWY_INLINE int64_t lanes_f32() { return static_cast<int64_t>(hn::Lanes(F32())); }

// Whether a masked load or store of such elements never touches the bytes that the mask leaves out.
// AVX2 has no mask for elements of one or two bytes: there Highway moves whole vectors.
template <class T>
constexpr bool has_exact_masks() {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  return true;
#elif HWY_TARGET == HWY_AVX2
  return sizeof(T) >= 4;
#else
  return false;
#endif
}

/// The first n (< lanes) elements, the rest zero; reads nothing beyond them.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_tail(D d, const T* src, int64_t n) {
  if constexpr (has_exact_masks<T>()) {
    return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n)), d, src);
  } else {
    HWY_ALIGN T buffer[hn::MaxLanes(D())] = {};
    for (int64_t i = 0; i < n; ++i) buffer[i] = src[i];
    return hn::Load(d, buffer);
  }
}

/// Writes the first n (< lanes) elements and nothing beyond them.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_tail(hn::Vec<D> v, D d, T* dst, int64_t n) {
  if constexpr (has_exact_masks<T>()) {
    hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(n)), d, dst);
  } else {
    HWY_ALIGN T buffer[hn::MaxLanes(D())];
    hn::Store(v, d, buffer);
    for (int64_t i = 0; i < n; ++i) dst[i] = buffer[i];
  }
}

/// Whether operands are long rows that come from memory, or lie in the first cache.
enum class RowDistance { near, far };

/// What lies here is read in order. Where a kernel computes much for each element and writes over
/// one of two operands, the processor's own prefetch falls behind: gelu_grad of 12 MiB took 2.4
/// times as long on an Intel Xeon without this. The distance was measured there.
template <RowDistance kRows, class T>
HWY_INLINE void fetch_ahead(const T* at) {
  constexpr size_t kAheadBytes = 1024;
  if constexpr (kRows == RowDistance::far) hwy::Prefetch(at + kAheadBytes / sizeof(T));
}

/// dst[i] = f(a[i]) over [0, n); f is called with whole vectors, the tail padded with zeros.
template <RowDistance kRows = RowDistance::near, class F>
HWY_INLINE void map_vectors(float* dst, const float* a, int64_t n, F f) {
  const F32 d;
  const int64_t step = lanes_f32();
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    fetch_ahead<kRows>(a + i);
    hn::StoreU(f(hn::LoadU(d, a + i)), d, dst + i);
  }
  if (i < n) store_tail(f(load_tail(d, a + i, n - i)), d, dst + i, n - i);
}
template <RowDistance kRows = RowDistance::near, class F>
HWY_INLINE void map_vectors(float* dst, const float* a, const float* b, int64_t n, F f) {
  const F32 d;
  const int64_t step = lanes_f32();
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    fetch_ahead<kRows>(a + i);
    fetch_ahead<kRows>(b + i);
    hn::StoreU(f(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, dst + i);
  }
  if (i < n)
    store_tail(f(load_tail(d, a + i, n - i), load_tail(d, b + i, n - i)), d, dst + i, n - i);
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#endif
