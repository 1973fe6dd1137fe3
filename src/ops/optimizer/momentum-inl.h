// SPDX-License-Identifier: Apache-2.0
// The loop of a step with momentum (SGD, LARS), compiled once a Highway target, and what it is
// given.

#ifndef SNUG_OPS_OPTIMIZER_MOMENTUM_FACTORS
#define SNUG_OPS_OPTIMIZER_MOMENTUM_FACTORS
namespace snug {

struct MomentumFactors {
  float gradient_scale, learning_rate, weight_decay, momentum;
  bool nesterov;
};

}  // namespace snug
#endif

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_OPS_OPTIMIZER_MOMENTUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_OPS_OPTIMIZER_MOMENTUM_INL_H_
#undef SNUG_OPS_OPTIMIZER_MOMENTUM_INL_H_
#else
#define SNUG_OPS_OPTIMIZER_MOMENTUM_INL_H_
#endif

#include "ops/optimizer/step_range-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// d = scale g + decay w;  buffer' = momentum buffer + d;
// w' = w - lr (nesterov ? d + momentum buffer' : buffer')
HWY_INLINE void momentum_range(const MomentumFactors& f, const StepOperands& operands,
                               int64_t begin, int64_t end) {
  const F32 d;
  const auto scale = hn::Set(d, f.gradient_scale);
  const auto decay = hn::Set(d, f.weight_decay);
  const auto rate = hn::Set(d, f.learning_rate);
  const auto momentum = hn::Set(d, f.momentum);
  const bool nesterov = f.nesterov;
  step_range<false>(operands, begin, end, [&](V32& w, V32 g, V32& buffer, V32&) HWY_ATTR {
    const auto change = hn::MulAdd(g, scale, hn::Mul(decay, w));
    buffer = hn::MulAdd(momentum, buffer, change);
    w = hn::NegMulAdd(rate, nesterov ? hn::MulAdd(momentum, buffer, change) : buffer, w);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#endif
