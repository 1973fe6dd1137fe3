// SPDX-License-Identifier: Apache-2.0
// CPU kernels of the reductions; the loops are in backend/cpu/reduction.cc.
#include "backend/cpu/kernel.h"
#include "backend/cpu/reduction.h"
#include "base/index_vector.h"

namespace snug {
namespace {

Reduction reduction_of(const NodeSpec& spec) {
  const Shape& shape = spec.inputs[0].shape;
  IndexVector<bool> reduced(shape.size(), false);
  const auto rank = static_cast<int64_t>(shape.size());
  for (const int64_t axis : spec.attrs.ints("axes")) {
    reduced[normalize_axis(axis, rank, *spec.op->name)] = true;
  }
  return plan_reduction(shape, reduced);
}

int64_t reduce_scratch(const NodeSpec& spec, const CpuContext&) {
  return reduction_scratch_bytes(reduction_of(spec));
}

std::unique_ptr<Kernel> create_sum(const NodeSpec& spec, const CpuContext& context) {
  const Reduction plan = reduction_of(spec);
  const double scale =
      *spec.op->name == "reduce_mean" ? 1.0 / static_cast<double>(plan.reduced) : 1.0;
  const DType dtype = spec.inputs[0].dtype;
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    reduce_sum(threads, plan, dtype, launch.inputs[0], output<float>(launch), scale,
               launch.scratch);
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_max(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel([plan = reduction_of(spec), threads = context.threads](const Launch& launch) {
    reduce_max_f32(threads, plan, input<float>(launch, 0), output<float>(launch));
    return ErrorCode::ok;
  });
}

int64_t squares_scratch(const NodeSpec& spec, const CpuContext&) {
  const int64_t blocks = (element_count(spec.inputs[0]) + kSquaresBlock - 1) / kSquaresBlock;
  return blocks * static_cast<int64_t>(sizeof(double));
}

std::unique_ptr<Kernel> create_squares(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel(
      [count = element_count(spec.inputs[0]), threads = context.threads](const Launch& launch) {
        const double sum =
            sum_squares_f32(threads, input<float>(launch, 0), count, scratch_at<double>(launch));
        *output<float>(launch) = static_cast<float>(sum);
        return ErrorCode::ok;
      });
}

}  // namespace

std::span<const CpuKernelDef> reduce_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"reduce_sum", "simd:reduce_sum", "f32|bf16|f16 -> f32", always, reduce_scratch, create_sum},
      {"reduce_mean", "simd:reduce_mean", "f32|bf16|f16 -> f32", always, reduce_scratch,
       create_sum},
      {"reduce_max", "plain:reduce_max", "f32 -> f32", always, no_scratch, create_max},
      {"sum_squares", "simd:sum_squares", "f32 -> f32", always, squares_scratch, create_squares},
  };
  return kernels;
}

}  // namespace snug
