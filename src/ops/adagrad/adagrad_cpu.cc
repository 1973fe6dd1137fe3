// SPDX-License-Identifier: Apache-2.0
// One pass over weights, gradients and states at the speed of memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/adagrad/adagrad_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ops/optimizer/step_range-inl.h"

#ifndef SNUG_OPS_ADAGRAD_ADAGRAD_CPU_FACTORS
#define SNUG_OPS_ADAGRAD_ADAGRAD_CPU_FACTORS
namespace snug {

struct AdagradFactors {
  float gradient_scale, learning_rate, weight_decay, eps;
};

}  // namespace snug
#endif

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// g' = scale g + decay w;  sum' = sum + g'^2;  w' = w - lr g' / (sqrt(sum') + eps)
void adagrad_range(const AdagradFactors& f, const StepOperands& operands, int64_t begin,
                   int64_t end) {
  const F32 d;
  const auto scale = hn::Set(d, f.gradient_scale);
  const auto rate = hn::Set(d, f.learning_rate);
  const auto decay = hn::Set(d, f.weight_decay);
  const auto eps = hn::Set(d, f.eps);
  step_range<true>(operands, begin, end, [&](V32& w, V32 raw, V32& sum, V32&) HWY_ATTR {
    const auto g = hn::MulAdd(raw, scale, hn::Mul(decay, w));
    sum = hn::MulAdd(g, g, sum);
    w = hn::NegMulAdd(rate, hn::Div(g, hn::Add(hn::Sqrt(sum), eps)), w);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace snug {

HWY_EXPORT(adagrad_range);

namespace {

std::unique_ptr<Kernel> create_adagrad(const NodeSpec& spec, const CpuContext& context) {
  const auto eps = static_cast<float>(spec.attrs.real("eps"));
  const auto decay = static_cast<float>(spec.attrs.real("weight_decay"));
  return make_element_step(
      spec, context,
      [=](const StepOperands& operands) {
        return AdagradFactors{.gradient_scale = operands.gradient_scale,
                              .learning_rate = operands.hyper[0],
                              .weight_decay = decay,
                              .eps = eps};
      },
      [] { return HWY_DYNAMIC_DISPATCH(adagrad_range); },
      decay == 0 && eps > 0 ? AtZero::rests : AtZero::moves);
}

}  // namespace

std::span<const CpuKernelDef> adagrad_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"adagrad", "simd:adagrad", "weight f32 f32 i64 f32 f32 i32 -> weight f32", always,
       no_scratch, create_adagrad},
      {"adagrad_8bit", "simd:adagrad_8bit", "weight f32 u8 f32 i64 f32 f32 i32 -> weight u8 f32",
       always, no_scratch, create_adagrad},
  };
  return kernels;
}

}  // namespace snug
#endif
