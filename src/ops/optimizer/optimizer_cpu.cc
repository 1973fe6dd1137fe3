// SPDX-License-Identifier: Apache-2.0
// CPU kernels of the update phase that all optimizers share. Every element is computed alone, so
// bits do not depend on threads.
#include <cmath>
#include <cstring>

#include "backend/cpu/kernel.h"
#include "backend/cpu/reduction.h"
#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizer/optimizer_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

void add_range(float* dst, const float* a, const float* b, int64_t n) {
  map_vectors(dst, a, b, n, [](auto x, auto y) HWY_ATTR { return hn::Add(x, y); });
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace snug {

HWY_EXPORT(add_range);

namespace {

constexpr int64_t kGrain = 8192;  // elements; whole vectors

std::unique_ptr<Kernel> create_accumulate(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel(
      [count = element_count(spec.inputs[0]), threads = context.threads](const Launch& launch) {
        const float* acc = input<float>(launch, 0);
        const float* x = input<float>(launch, 1);
        auto* dst = output<float>(launch);
        const auto run = HWY_DYNAMIC_DISPATCH(add_range);
        parallel_for(threads, count, kGrain, [&](int64_t begin, int64_t end) {
          run(dst + begin, acc + begin, x + begin, end - begin);
        });
        return ErrorCode::ok;
      });
}

std::unique_ptr<Kernel> create_set_zero(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel(
      [bytes = byte_count(spec.outputs[0]), threads = context.threads](const Launch& launch) {
        parallel_for(threads, bytes, kGrain * 4, [&](int64_t begin, int64_t end) {
          std::memset(launch.outputs[0] + begin, 0, static_cast<size_t>(end - begin));
        });
        return ErrorCode::ok;
      });
}

int64_t squares_scratch(const NodeSpec& spec, const CpuContext&) {
  const int64_t blocks = (element_count(spec.inputs[0]) + kSquaresBlock - 1) / kSquaresBlock;
  return blocks * static_cast<int64_t>(sizeof(double));
}

std::unique_ptr<Kernel> create_gradient_squares(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel(
      [count = element_count(spec.inputs[0]), threads = context.threads](const Launch& launch) {
        const auto scale = static_cast<double>(*input<float>(launch, 1));
        const double sum =
            sum_squares_f32(threads, input<float>(launch, 0), count, scratch_at<double>(launch));
        *output<float>(launch) = static_cast<float>(sum * scale * scale);
        return ErrorCode::ok;
      });
}

std::unique_ptr<Kernel> create_global_norm(const NodeSpec& spec, const CpuContext&) {
  return make_kernel([max_norm = spec.attrs.real("max_norm")](const Launch& launch) {
    double sum = 0;
    for (size_t i = 0; i < launch.inputs.size(); ++i)
      sum += static_cast<double>(*input<float>(launch, i));
    const double norm = std::sqrt(sum);
    double factor = 1.0;
    if (!std::isfinite(norm)) {
      factor = std::nan("");  // skips the update
    } else if (max_norm > 0) {
      factor = std::min(1.0, max_norm / (norm + 1e-6));
    }
    *output<float>(launch, 0) = static_cast<float>(norm);
    *output<float>(launch, 1) = static_cast<float>(factor);
    return ErrorCode::ok;
  });
}

}  // namespace

std::span<const CpuKernelDef> optimizer_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"accumulate", "simd:accumulate", "f32 f32 -> f32", always, no_scratch, create_accumulate},
      {"set_zero", "plain:set_zero", "f32 -> f32", always, no_scratch, create_set_zero},
      {"set_zero", "plain:set_zero_i32", "i32 -> i32", always, no_scratch, create_set_zero},
      {"gradient_squares", "simd:sum_squares", "f32 f32 -> f32", always, squares_scratch,
       create_gradient_squares},
      {"global_norm", "plain:global_norm", "f32... -> f32 f32", always, no_scratch,
       create_global_norm},
  };
  return kernels;
}

}  // namespace snug
#endif
