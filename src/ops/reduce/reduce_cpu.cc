// SPDX-License-Identifier: Apache-2.0
// CPU kernels of the reductions; the loops are in backend/cpu/reduction.cc.
#include "backend/cpu/kernel.h"
#include "backend/cpu/reduction.h"
#include "backend/cpu/row_kernel.h"
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

double scale_of(const NodeSpec& spec, const Reduction& plan) {
  return *spec.op->name == "reduce_mean" ? 1.0 / static_cast<double>(plan.reduced) : 1.0;
}

RowwiseForm sum_form(const NodeSpec& spec, const CpuContext& context) {
  const Reduction plan = reduction_of(spec);
  if (!is_summed_by_rows(plan)) return {};
  constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));
  return {.grid = {.rows = plan.reduced, .step = kRowsOfTree, .grain = kRowsOfGroup},
          .inputs = {plan.inner * element_bytes(spec.inputs[0].dtype)},
          .outputs = {0},
          .scratch_bytes = row_groups(plan) * plan.inner * kFloatBytes,
          .threads = context.threads};
}

// By itself it sums columns side by side and needs no row of sums for each group.
class SumKernel final : public RowKernel {
 public:
  SumKernel(const NodeSpec& spec, const CpuContext& context)
      : RowKernel(sum_form(spec, context)),
        plan_(reduction_of(spec)),
        dtype_(spec.inputs[0].dtype),
        scale_(scale_of(spec, plan_)),
        threads_(context.threads) {}
  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override {
    reduce_sum(threads_, plan_, dtype_, launch.inputs[0], output<float>(launch), scale_,
               launch.scratch);
    return ErrorCode::ok;
  }
  void run_rows(const RowPiece& piece) const noexcept override {
    add_rows(plan_, dtype_, piece.inputs[0], piece.begin, piece.rows(),
             reinterpret_cast<float*>(piece.scratch));
  }
  void finish(const Launch& launch) const noexcept override {
    sum_groups(threads_, plan_, scratch_at<float>(launch), output<float>(launch), scale_);
  }

 private:
  Reduction plan_;
  DType dtype_;
  double scale_;
  int threads_;
};

std::unique_ptr<Kernel> create_sum(const NodeSpec& spec, const CpuContext& context) {
  return std::make_unique<SumKernel>(spec, context);
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
      {"reduce_sum", "simd:reduce_sum", "f32|bf16|f16 -> f32", always, reduce_scratch, create_sum,
       "", nullptr, sum_form},
      {"reduce_mean", "simd:reduce_mean", "f32|bf16|f16 -> f32", always, reduce_scratch, create_sum,
       "", nullptr, sum_form},
      {"reduce_max", "plain:reduce_max", "f32 -> f32", always, no_scratch, create_max},
      {"sum_squares", "simd:sum_squares", "f32 -> f32", always, squares_scratch, create_squares},
  };
  return kernels;
}

}  // namespace snug
