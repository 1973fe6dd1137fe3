// SPDX-License-Identifier: Apache-2.0
// The loop of an optimizer's step over elements, compiled once a Highway target. Destinations may
// be sources.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_OPS_OPTIMIZER_STEP_RANGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_OPS_OPTIMIZER_STEP_RANGE_INL_H_
#undef SNUG_OPS_OPTIMIZER_STEP_RANGE_INL_H_
#else
#define SNUG_OPS_OPTIMIZER_STEP_RANGE_INL_H_
#endif

#include "backend/cpu/simd-inl.h"
#include "ops/optimizer/step_cpu.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// The body runs on whole vectors; at the end of the range loads and stores are partial.
template <class D>
HWY_INLINE hn::Vec<D> load_some(D d, const float* src, int64_t n, int64_t step) {
  return n >= step ? hn::LoadU(d, src) : load_tail(d, src, n);
}
template <class D>
HWY_INLINE void store_some(hn::Vec<D> v, D d, float* dst, int64_t n, int64_t step) {
  if (n >= step) {
    hn::StoreU(v, d, dst);
  } else {
    store_tail(v, d, dst, n);
  }
}

/// formula(w, g, a, b) changes w and the kStates states a, b in place; g is not yet clipped.
template <size_t kStates, class Formula>
HWY_INLINE void step_range(const StepOperands& operands, int64_t begin, int64_t end,
                           Formula formula) {
  const F32 d;
  const int64_t step = lanes_f32();
  for (int64_t i = begin; i < end; i += step) {
    const int64_t n = end - i;
    V32 w = load_some(d, operands.src[0] + i, n, step);
    const V32 g = load_some(d, operands.src[1] + i, n, step);
    V32 a = hn::Zero(d);
    V32 b = hn::Zero(d);
    if constexpr (kStates > 0) a = load_some(d, operands.src[2] + i, n, step);
    if constexpr (kStates > 1) b = load_some(d, operands.src[3] + i, n, step);
    formula(w, g, a, b);
    store_some(w, d, operands.dst[0] + i, n, step);
    if constexpr (kStates > 0) store_some(a, d, operands.dst[1] + i, n, step);
    if constexpr (kStates > 1) store_some(b, d, operands.dst[2] + i, n, step);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#endif
