// SPDX-License-Identifier: Apache-2.0
// The processor's dot products of pairs of bf16 (AVX512_BF16: two products are added into a lane of
// f32), compiled once a Highway target. Empty where that is not AVX-512; whoever calls asks
// has_bf16_products() first.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_BACKEND_CPU_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_BACKEND_CPU_PAIRS_INL_H_
#undef SNUG_BACKEND_CPU_PAIRS_INL_H_
#else
#define SNUG_BACKEND_CPU_PAIRS_INL_H_
#endif

#include "backend/cpu/simd-inl.h"
#include "hwy/highway.h"

#undef SNUG_BF16_TARGET
#if HWY_TARGET == HWY_AVX3
#define SNUG_BF16_TARGET 1
#include <immintrin.h>
#else
#define SNUG_BF16_TARGET 0
#endif

#if SNUG_BF16_TARGET
HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// Highway has no target for these instructions; functions with them and those that they are inlined
// into say so.
#undef SNUG_BF16_ATTR
#define SNUG_BF16_ATTR __attribute__((target(HWY_TARGET_STR ",avx512bf16")))

using Pairs = hn::Vec<hn::ScalableTag<uint32_t>>;  // each lane two bf16, the first in the low half

SNUG_BF16_ATTR HWY_INLINE V32 add_dot(V32 sum, Pairs a, Pairs b) {
  return V32{_mm512_dpbf16_ps(sum.raw, __builtin_bit_cast(__m512bh, a.raw),
                              __builtin_bit_cast(__m512bh, b.raw))};
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();
#endif  // SNUG_BF16_TARGET

#endif
