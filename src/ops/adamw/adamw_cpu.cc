// SPDX-License-Identifier: Apache-2.0
// One pass over weights, gradients and states at the speed of memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/adamw/adamw_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ops/optimizer/moments-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

void adamw_range(const MomentFactors& f, const StepOperands& operands, int64_t begin, int64_t end) {
  moments_range<Decay::of_weight>(f, operands, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace snug {

HWY_EXPORT(adamw_range);

namespace {

std::unique_ptr<Kernel> create_adamw(const NodeSpec& spec, const CpuContext& context) {
  return make_moments_step(spec, context, [] { return HWY_DYNAMIC_DISPATCH(adamw_range); });
}

}  // namespace

std::span<const CpuKernelDef> adamw_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"adamw", "simd:adamw", "weight f32 f32 f32 i64 f32 f32 i32 -> weight f32 f32", always,
       no_scratch, create_adamw},
      {"adamw_8bit", "simd:adamw_8bit",
       "weight f32 u8 f32 u8 f32 i64 f32 f32 i32 -> weight u8 f32 u8 f32", always, no_scratch,
       create_adamw},
  };
  return kernels;
}

}  // namespace snug
#endif
