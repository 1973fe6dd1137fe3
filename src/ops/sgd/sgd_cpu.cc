// SPDX-License-Identifier: Apache-2.0
// One pass over weights, gradients and states at the speed of memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/sgd/sgd_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ops/optimizer/momentum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// w' = w - lr (scale g + decay w)
void sgd_range(const MomentumFactors& f, const StepOperands& operands, int64_t begin, int64_t end) {
  const F32 d;
  const auto scale = hn::Set(d, f.gradient_scale);
  const auto decay = hn::Set(d, f.weight_decay);
  const auto rate = hn::Set(d, f.learning_rate);
  step_range<>(operands, begin, end, [&](V32& w, V32 g, V32&, V32&) HWY_ATTR {
    w = hn::NegMulAdd(rate, hn::MulAdd(g, scale, hn::Mul(decay, w)), w);
  });
}

void sgd_momentum_range(const MomentumFactors& f, const StepOperands& operands, int64_t begin,
                        int64_t end) {
  momentum_range(f, operands, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace snug {

HWY_EXPORT(sgd_range);
HWY_EXPORT(sgd_momentum_range);

namespace {

std::unique_ptr<Kernel> create_sgd(const NodeSpec& spec, const CpuContext& context) {
  const auto decay = static_cast<float>(spec.attrs.real("weight_decay"));
  return make_element_step(
      spec, context,
      [decay](const StepOperands& operands) {
        return MomentumFactors{.gradient_scale = operands.gradient_scale,
                               .learning_rate = operands.hyper[0],
                               .weight_decay = decay,
                               .momentum = 0,
                               .nesterov = false};
      },
      [] { return HWY_DYNAMIC_DISPATCH(sgd_range); }, decay == 0 ? AtZero::rests : AtZero::moves);
}

std::unique_ptr<Kernel> create_sgd_momentum(const NodeSpec& spec, const CpuContext& context) {
  const auto decay = static_cast<float>(spec.attrs.real("weight_decay"));
  const auto momentum = static_cast<float>(spec.attrs.real("momentum"));
  return make_element_step(
      spec, context,
      [decay, momentum, nesterov = spec.attrs.boolean("nesterov")](const StepOperands& operands) {
        return MomentumFactors{.gradient_scale = operands.gradient_scale,
                               .learning_rate = operands.hyper[0],
                               .weight_decay = decay,
                               .momentum = momentum,
                               .nesterov = nesterov};
      },
      [] { return HWY_DYNAMIC_DISPATCH(sgd_momentum_range); });
}

}  // namespace

std::span<const CpuKernelDef> sgd_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"sgd", "simd:sgd", "weight f32 i64 f32 f32 i32 -> weight", always, no_scratch, create_sgd},
      {"sgd_momentum", "simd:sgd_momentum", "weight f32 f32 i64 f32 f32 i32 -> weight f32", always,
       no_scratch, create_sgd_momentum},
      {"sgd_momentum_8bit", "simd:sgd_momentum_8bit",
       "weight f32 u8 f32 i64 f32 f32 i32 -> weight u8 f32", always, no_scratch,
       create_sgd_momentum},
  };
  return kernels;
}

}  // namespace snug
#endif
