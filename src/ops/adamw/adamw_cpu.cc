// SPDX-License-Identifier: Apache-2.0
// One pass over weights, gradients and states at the speed of memory.
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/adamw/adamw_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ops/optimizer/step_range-inl.h"

#ifndef SNUG_OPS_ADAMW_ADAMW_CPU_FACTORS
#define SNUG_OPS_ADAMW_ADAMW_CPU_FACTORS
namespace snug {

struct AdamwFactors {
  float gradient_scale;
  float keep;  // 1 - learning_rate * weight_decay
  float one_minus_beta1, beta2, one_minus_beta2;
  float step;          // learning_rate / (1 - beta1^t)
  float inverse_root;  // 1 / sqrt(1 - beta2^t)
  float eps;
};

}  // namespace snug
#endif

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// m' = m + (1 - beta1) (g - m);  v' = beta2 v + (1 - beta2) g^2;
// w' = keep w - step m' / (sqrt(v') / sqrt(1 - beta2^t) + eps)
void adamw_range(const AdamwFactors& f, const StepOperands& operands, int64_t begin, int64_t end) {
  const F32 d;
  const auto scale = hn::Set(d, f.gradient_scale);
  const auto keep = hn::Set(d, f.keep);
  const auto one_minus_beta1 = hn::Set(d, f.one_minus_beta1);
  const auto beta2 = hn::Set(d, f.beta2);
  const auto one_minus_beta2 = hn::Set(d, f.one_minus_beta2);
  const auto step_size = hn::Set(d, f.step);
  const auto inverse_root = hn::Set(d, f.inverse_root);
  const auto eps = hn::Set(d, f.eps);
  step_range<false, true>(operands, begin, end, [&](V32& w, V32 raw, V32& m, V32& v) HWY_ATTR {
    const auto g = hn::Mul(raw, scale);
    m = hn::MulAdd(one_minus_beta1, hn::Sub(g, m), m);
    v = hn::MulAdd(hn::Mul(one_minus_beta2, g), g, hn::Mul(beta2, v));
    const auto denominator = hn::MulAdd(hn::Sqrt(v), inverse_root, eps);
    w = hn::Sub(hn::Mul(w, keep), hn::Div(hn::Mul(step_size, m), denominator));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace snug {

HWY_EXPORT(adamw_range);

namespace {

std::unique_ptr<Kernel> create_adamw(const NodeSpec& spec, const CpuContext& context) {
  const double beta1 = spec.attrs.real("beta1");
  const double beta2 = spec.attrs.real("beta2");
  const double eps = spec.attrs.real("eps");
  const double decay = spec.attrs.real("weight_decay");
  return make_element_step(
      spec, context,
      [=](const StepOperands& operands) {
        const float* hyper = operands.hyper;
        const auto rate = static_cast<double>(hyper[0]);
        return AdamwFactors{
            .gradient_scale = operands.gradient_scale,
            .keep = static_cast<float>(1.0 - rate * decay),
            .one_minus_beta1 = static_cast<float>(1.0 - beta1),
            .beta2 = static_cast<float>(beta2),
            .one_minus_beta2 = static_cast<float>(1.0 - beta2),
            .step = static_cast<float>(rate / static_cast<double>(hyper[1])),
            .inverse_root = static_cast<float>(1.0 / std::sqrt(static_cast<double>(hyper[2]))),
            .eps = static_cast<float>(eps)};
      },
      [] { return HWY_DYNAMIC_DISPATCH(adamw_range); });
}

}  // namespace

std::span<const CpuKernelDef> adamw_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"adamw", "simd:adamw", "weight f32 f32 f32 i64 f32 f32 -> weight f32 f32", always,
       no_scratch, create_adamw},
      {"adamw_8bit", "simd:adamw_8bit",
       "weight f32 u8 f32 u8 f32 i64 f32 f32 -> weight u8 f32 u8 f32", always, no_scratch,
       create_adamw},
  };
  return kernels;
}

}  // namespace snug
#endif
