// SPDX-License-Identifier: Apache-2.0
// The norms of weight and gradient, then one pass as SGD's.
#include <cmath>

#include "backend/cpu/reduction.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/lars/lars_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ops/optimizer/momentum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// Scale and decay hold the local rate.
void lars_range(const MomentumFactors& f, const StepOperands& operands, int64_t begin,
                int64_t end) {
  momentum_range(f, operands, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace snug {

HWY_EXPORT(lars_range);

namespace {

int64_t lars_scratch(const NodeSpec& spec, const CpuContext&) {
  const int64_t blocks = (element_count(spec.inputs[0]) + kSquaresBlock - 1) / kSquaresBlock;
  return blocks * static_cast<int64_t>(sizeof(double));
}

class LarsStep {
 public:
  LarsStep(const NodeSpec& spec, int threads)
      : momentum_(spec.attrs.real("momentum")),
        trust_(spec.attrs.real("trust")),
        eps_(spec.attrs.real("eps")),
        decay_(spec.attrs.real("weight_decay")),
        nesterov_(spec.attrs.boolean("nesterov")),
        adapts_(spec.attrs.boolean("adapts")),
        storage_(spec),
        count_(element_count(spec.inputs[0])),
        gradient_count_(element_count(spec.inputs[1])),
        threads_(threads) {}

  void operator()(const StepOperands& operands, const Launch& launch) const {
    const double local = adapts_ ? local_rate(operands, launch) : 1;
    const auto scale = static_cast<double>(operands.gradient_scale);
    const MomentumFactors factors{.gradient_scale = static_cast<float>(scale * local),
                                  .learning_rate = operands.hyper[0],
                                  .weight_decay = static_cast<float>(decay_ * local),
                                  .momentum = static_cast<float>(momentum_),
                                  .nesterov = nesterov_};
    const auto run = HWY_DYNAMIC_DISPATCH(lars_range);
    parallel_for(threads_, count_, kStepGrain, [&](int64_t begin, int64_t end) {
      storage_.for_each_range(
          operands, launch, begin, end,
          [&](const StepOperands& part, int64_t, int64_t n) { run(factors, part, 0, n); });
    });
  }

 private:
  [[nodiscard]] double local_rate(const StepOperands& operands, const Launch& launch) const {
    auto* const scratch = scratch_at<double>(launch);
    const double w = std::sqrt(storage_.squares_of_weights(threads_, launch, count_, scratch));
    const double g =
        std::sqrt(sum_squares_f32(threads_, operands.src[1], gradient_count_, scratch)) *
        static_cast<double>(operands.gradient_scale);
    return w == 0 || g == 0 ? 1 : trust_ * w / (g + decay_ * w + eps_);
  }

  double momentum_, trust_, eps_, decay_;
  bool nesterov_, adapts_;
  StepStorage storage_;
  int64_t count_;
  int64_t gradient_count_;  // of a row-sparse one: of the rows that it has, and zeros
  int threads_;
};

std::unique_ptr<Kernel> create_lars(const NodeSpec& spec, const CpuContext& context) {
  return make_step_kernel(spec, LarsStep(spec, context.threads));
}

}  // namespace

std::span<const CpuKernelDef> lars_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"lars", "simd:lars", "weight f32 f32 i64 f32 f32 i32 -> weight f32", always, lars_scratch,
       create_lars},
      {"lars_8bit", "simd:lars_8bit", "weight f32 u8 f32 i64 f32 f32 i32 -> weight u8 f32", always,
       lars_scratch, create_lars},
  };
  return kernels;
}

}  // namespace snug
#endif
