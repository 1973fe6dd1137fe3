// SPDX-License-Identifier: Apache-2.0
// One pass over weights, gradients and states at the speed of memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rmsprop/rmsprop_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ops/optimizer/step_range-inl.h"

#ifndef SNUG_OPS_RMSPROP_RMSPROP_CPU_FACTORS
#define SNUG_OPS_RMSPROP_RMSPROP_CPU_FACTORS
namespace snug {

struct RmspropFactors {
  float gradient_scale, learning_rate, weight_decay;
  float alpha, one_minus_alpha, eps, momentum;
};

}  // namespace snug
#endif

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// g' = scale g + decay w;  v' = alpha v + (1 - alpha) g'^2;  returns g' / (sqrt(v') + eps)
HWY_INLINE V32 normalised(const RmspropFactors& f, V32 w, V32 raw, V32& v) {
  const F32 d;
  const auto g =
      hn::MulAdd(raw, hn::Set(d, f.gradient_scale), hn::Mul(hn::Set(d, f.weight_decay), w));
  v = hn::MulAdd(hn::Mul(hn::Set(d, f.one_minus_alpha), g), g, hn::Mul(hn::Set(d, f.alpha), v));
  return hn::Div(g, hn::Add(hn::Sqrt(v), hn::Set(d, f.eps)));
}

void rmsprop_range(const RmspropFactors& f, const StepOperands& operands, int64_t begin,
                   int64_t end) {
  const auto rate = hn::Set(F32(), f.learning_rate);
  step_range<true>(operands, begin, end, [&](V32& w, V32 raw, V32& v, V32&) HWY_ATTR {
    w = hn::NegMulAdd(rate, normalised(f, w, raw, v), w);
  });
}

void rmsprop_momentum_range(const RmspropFactors& f, const StepOperands& operands, int64_t begin,
                            int64_t end) {
  const auto rate = hn::Set(F32(), f.learning_rate);
  const auto momentum = hn::Set(F32(), f.momentum);
  step_range<true, false>(operands, begin, end, [&](V32& w, V32 raw, V32& v, V32& buffer) HWY_ATTR {
    buffer = hn::MulAdd(momentum, buffer, normalised(f, w, raw, v));
    w = hn::NegMulAdd(rate, buffer, w);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace snug {

HWY_EXPORT(rmsprop_range);
HWY_EXPORT(rmsprop_momentum_range);

namespace {

// The factors of a call, of both forms.
auto factors_of(const NodeSpec& spec, double momentum) {
  const double alpha = spec.attrs.real("alpha");
  const double eps = spec.attrs.real("eps");
  const double decay = spec.attrs.real("weight_decay");
  return [=](const StepOperands& operands) {
    return RmspropFactors{.gradient_scale = operands.gradient_scale,
                          .learning_rate = operands.hyper[0],
                          .weight_decay = static_cast<float>(decay),
                          .alpha = static_cast<float>(alpha),
                          .one_minus_alpha = static_cast<float>(1.0 - alpha),
                          .eps = static_cast<float>(eps),
                          .momentum = static_cast<float>(momentum)};
  };
}

std::unique_ptr<Kernel> create_rmsprop(const NodeSpec& spec, const CpuContext& context) {
  return make_element_step(spec, context, factors_of(spec, 0),
                           [] { return HWY_DYNAMIC_DISPATCH(rmsprop_range); });
}

std::unique_ptr<Kernel> create_rmsprop_momentum(const NodeSpec& spec, const CpuContext& context) {
  return make_element_step(spec, context, factors_of(spec, spec.attrs.real("momentum")),
                           [] { return HWY_DYNAMIC_DISPATCH(rmsprop_momentum_range); });
}

}  // namespace

std::span<const CpuKernelDef> rmsprop_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"rmsprop", "simd:rmsprop", "weight f32 f32 i64 f32 f32 i32 -> weight f32", always,
       no_scratch, create_rmsprop},
      {"rmsprop_8bit", "simd:rmsprop_8bit", "weight f32 u8 f32 i64 f32 f32 i32 -> weight u8 f32",
       always, no_scratch, create_rmsprop},
      {"rmsprop_momentum", "simd:rmsprop_momentum",
       "weight f32 f32 f32 i64 f32 f32 i32 -> weight f32 f32", always, no_scratch,
       create_rmsprop_momentum},
      {"rmsprop_momentum_8bit", "simd:rmsprop_momentum_8bit",
       "weight f32 u8 f32 u8 f32 i64 f32 f32 i32 -> weight u8 f32 u8 f32", always, no_scratch,
       create_rmsprop_momentum},
  };
  return kernels;
}

}  // namespace snug
#endif
