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

#include <cstring>

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

HWY_INLINE Pairs broadcast_pair(const uint16_t* at) {
  int32_t pair;
  std::memcpy(&pair, at, sizeof pair);
  return Pairs{_mm512_set1_epi32(pair)};
}

/// A of pairs along its depth: that of row i and pair p starts at data[p * stride + 2 * i] where
/// columns are paired (kColumns), else at data[i * stride + 2 * p].
struct PairOperand {
  const uint16_t* data;
  int64_t stride;
};

/// A tile of C, kRows rows and kVectors vectors, `c_stride` apart: = A B, or += where
/// `accumulates`. B has kVectors vectors for a pair, one pair behind the other.
template <int64_t kRows, int64_t kVectors, bool kColumns>
SNUG_BF16_ATTR HWY_NOINLINE void multiply_pairs_tile(PairOperand a, const uint32_t* HWY_RESTRICT b,
                                                     int64_t pairs, float* HWY_RESTRICT c,
                                                     int64_t c_stride, bool accumulates) {
  const F32 d;
  const int64_t lanes = lanes_f32();
  V32 sum[kRows][kVectors];
  HWY_UNROLL(16)
  for (int64_t i = 0; i < kRows; ++i) {
    HWY_UNROLL(16)
    for (int64_t v = 0; v < kVectors; ++v)
      sum[i][v] = accumulates ? hn::LoadU(d, c + i * c_stride + v * lanes) : hn::Zero(d);
  }
  for (int64_t p = 0; p < pairs; ++p) {
    Pairs row[kVectors];
    HWY_UNROLL(16)
    for (int64_t v = 0; v < kVectors; ++v)
      row[v] = hn::LoadU(hn::ScalableTag<uint32_t>(), b + v * lanes);
    b += kVectors * lanes;
    HWY_UNROLL(16)
    for (int64_t i = 0; i < kRows; ++i) {
      const Pairs factor =
          broadcast_pair(a.data + (kColumns ? p * a.stride + 2 * i : i * a.stride + 2 * p));
      HWY_UNROLL(16)
      for (int64_t v = 0; v < kVectors; ++v) sum[i][v] = add_dot(sum[i][v], factor, row[v]);
    }
  }
  HWY_UNROLL(16)
  for (int64_t i = 0; i < kRows; ++i) {
    HWY_UNROLL(16)
    for (int64_t v = 0; v < kVectors; ++v) hn::StoreU(sum[i][v], d, c + i * c_stride + v * lanes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();
#endif  // SNUG_BF16_TARGET

#endif
