// SPDX-License-Identifier: Apache-2.0
// One pass over weights, gradients and states at the speed of memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/adam/adam_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ops/optimizer/moments-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

void adam_range(const MomentFactors& f, const StepOperands& operands, int64_t begin, int64_t end) {
  moments_range<Decay::of_gradient>(f, operands, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace snug {

HWY_EXPORT(adam_range);

namespace {

std::unique_ptr<Kernel> create_adam(const NodeSpec& spec, const CpuContext& context) {
  return make_moments_step(spec, context, [] { return HWY_DYNAMIC_DISPATCH(adam_range); });
}

}  // namespace

std::span<const CpuKernelDef> adam_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"adam", "simd:adam", "weight f32 f32 f32 i64 f32 f32 i32 -> weight f32 f32", always,
       no_scratch, create_adam},
      {"adam_8bit", "simd:adam_8bit",
       "weight f32 u8 f32 u8 f32 i64 f32 f32 i32 -> weight u8 f32 u8 f32", always, no_scratch,
       create_adam},
  };
  return kernels;
}

}  // namespace snug
#endif
