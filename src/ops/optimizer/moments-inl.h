// SPDX-License-Identifier: Apache-2.0
// The loop of Adam's and AdamW's steps, compiled once a Highway target, and what it is given.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_OPS_OPTIMIZER_MOMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_OPS_OPTIMIZER_MOMENTS_INL_H_
#undef SNUG_OPS_OPTIMIZER_MOMENTS_INL_H_
#else
#define SNUG_OPS_OPTIMIZER_MOMENTS_INL_H_
#endif

#include "ops/optimizer/moments_cpu.h"
#include "ops/optimizer/optimizer_moments.h"
#include "ops/optimizer/step_range-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// Adam:  g' = scale g + decay w;  kept = w
// AdamW: g' = scale g;  kept = keep w
// m' = m + (1 - beta1) (g' - m);  v' = beta2 v + (1 - beta2) g'^2;
// w' = kept - step m' / (sqrt(v') / sqrt(1 - beta2^t) + eps)
template <Decay kDecay>
HWY_INLINE void moments_range(const MomentFactors& f, const StepOperands& operands, int64_t begin,
                              int64_t end) {
  const F32 d;
  const auto scale = hn::Set(d, f.gradient_scale);
  const auto decay = hn::Set(d, f.weight_decay);
  const auto keep = hn::Set(d, f.keep);
  const auto one_minus_beta1 = hn::Set(d, f.one_minus_beta1);
  const auto beta2 = hn::Set(d, f.beta2);
  const auto one_minus_beta2 = hn::Set(d, f.one_minus_beta2);
  const auto step_size = hn::Set(d, f.step);
  const auto inverse_root = hn::Set(d, f.inverse_root);
  const auto eps = hn::Set(d, f.eps);
  step_range<false, true>(operands, begin, end, [&](V32& w, V32 raw, V32& m, V32& v) HWY_ATTR {
    V32 g = hn::Mul(raw, scale);
    if constexpr (kDecay == Decay::of_gradient) g = hn::MulAdd(raw, scale, hn::Mul(decay, w));
    m = hn::MulAdd(one_minus_beta1, hn::Sub(g, m), m);
    v = hn::MulAdd(hn::Mul(one_minus_beta2, g), g, hn::Mul(beta2, v));
    const auto denominator = hn::MulAdd(hn::Sqrt(v), inverse_root, eps);
    if constexpr (kDecay == Decay::of_weight) w = hn::Mul(w, keep);
    w = hn::Sub(w, hn::Div(hn::Mul(step_size, m), denominator));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#endif
