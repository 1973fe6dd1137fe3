// SPDX-License-Identifier: Apache-2.0
// One pass over weights, gradients and states at the speed of memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/lion/lion_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ops/optimizer/step_range-inl.h"

#ifndef SNUG_OPS_LION_LION_CPU_FACTORS
#define SNUG_OPS_LION_LION_CPU_FACTORS
namespace snug {

struct LionFactors {
  float gradient_scale, learning_rate;
  float keep;  // 1 - learning_rate * weight_decay
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
};

}  // namespace snug
#endif

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// c = beta1 m + (1 - beta1) g;  w' = keep w - lr sign(c);  m' = beta2 m + (1 -
// beta2) g
void lion_range(const LionFactors& f, const StepOperands& operands, int64_t begin, int64_t end) {
  const F32 d;
  const auto scale = hn::Set(d, f.gradient_scale);
  const auto rate = hn::Set(d, f.learning_rate);
  const auto keep = hn::Set(d, f.keep);
  const auto beta1 = hn::Set(d, f.beta1);
  const auto one_minus_beta1 = hn::Set(d, f.one_minus_beta1);
  const auto beta2 = hn::Set(d, f.beta2);
  const auto one_minus_beta2 = hn::Set(d, f.one_minus_beta2);
  const auto zero = hn::Zero(d);
  step_range<false>(operands, begin, end, [&](V32& w, V32 raw, V32& m, V32&) HWY_ATTR {
    const auto g = hn::Mul(raw, scale);
    const auto c = hn::MulAdd(one_minus_beta1, g, hn::Mul(beta1, m));
    // The rate with the sign of c; c itself where it is 0 or NaN.
    const auto step = hn::IfThenElse(hn::Gt(hn::Abs(c), zero), hn::CopySign(rate, c), c);
    w = hn::Sub(hn::Mul(w, keep), step);
    m = hn::MulAdd(one_minus_beta2, g, hn::Mul(beta2, m));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace snug {

HWY_EXPORT(lion_range);

namespace {

std::unique_ptr<Kernel> create_lion(const NodeSpec& spec, const CpuContext& context) {
  const double beta1 = spec.attrs.real("beta1");
  const double beta2 = spec.attrs.real("beta2");
  const double decay = spec.attrs.real("weight_decay");
  return make_element_step(
      spec, context,
      [=](const StepOperands& operands) {
        const auto rate = static_cast<double>(operands.hyper[0]);
        return LionFactors{.gradient_scale = operands.gradient_scale,
                           .learning_rate = operands.hyper[0],
                           .keep = static_cast<float>(1.0 - rate * decay),
                           .beta1 = static_cast<float>(beta1),
                           .one_minus_beta1 = static_cast<float>(1.0 - beta1),
                           .beta2 = static_cast<float>(beta2),
                           .one_minus_beta2 = static_cast<float>(1.0 - beta2)};
      },
      [] { return HWY_DYNAMIC_DISPATCH(lion_range); });
}

}  // namespace

std::span<const CpuKernelDef> lion_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"lion", "simd:lion", "weight f32 f32 i64 f32 f32 i32 -> weight f32", always, no_scratch,
       create_lion},
      {"lion_8bit", "simd:lion_8bit", "weight f32 u8 f32 i64 f32 f32 i32 -> weight u8 f32", always,
       no_scratch, create_lion},
  };
  return kernels;
}

}  // namespace snug
#endif
