// SPDX-License-Identifier: Apache-2.0
// CPU kernel of attention_grad. A unit of work is one head of one sample, computed by one thread,
// without atomics. Legend in attention_launch_cpu.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/attention_grad_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ops/attention/attention_grad_unit-inl.h"
#include "ops/attention/attention_launch_cpu.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

void attention_grad_unit(const AttentionShape& shape, const AttentionData& data, int64_t sample,
                         int64_t head, float* memory) {
  NoExtraScores none;
  run_attention_grad_unit(shape, GradScratch(shape, grad_blocks(shape), memory), data, sample, head,
                          next_head_offset(shape, sample, head), none);
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/kernel.h"
#include "base/threads.h"

namespace snug {

HWY_EXPORT(attention_grad_unit);

namespace {

constexpr size_t kMask = 6;  // which input

// Scratch of one thread, with copies of eight tensors of its head where they are in 16 bits.
int64_t grad_floats(const AttentionShape& shape, DType dtype) {
  const int64_t copies = dtype == DType::f32 ? 0 : copied_floats(shape, 8);
  return GradScratch(shape, grad_blocks(shape), nullptr).floats + copies;
}

}  // namespace

int64_t attention_grad_scratch(const NodeSpec& spec, const CpuContext& context) {
  const AttentionShape shape = attention_shape(spec);
  const int64_t parts = parallel_parts(context.threads, shape.samples * shape.heads, 1);
  return parts * grad_floats(shape, spec.inputs[0].dtype) * static_cast<int64_t>(sizeof(float));
}

std::unique_ptr<Kernel> create_half_attention_grad(const NodeSpec& spec,
                                                   const CpuContext& context) {
  AttentionShape shape = attention_shape(spec);
  const DType dtype = spec.inputs[0].dtype;
  const int64_t scratch_floats = grad_floats(shape, dtype);
  const auto unit_fn = HWY_DYNAMIC_DISPATCH(attention_grad_unit);
  shape.is_one_head = true;
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    const auto run_unit = [&](int64_t sample, int64_t head, float* memory) {
      HeadCopies copies(shape, dtype, memory);
      const AttentionData data =
          copied_grad_data(launch, kMask, copies, sample, head, shape.tokens);
      unit_fn(shape, data, sample, head, copies.rest());
      write_grad(data, launch, copies, sample, head, shape.tokens);
    };
    auto* scratch = scratch_at<float>(launch);
    parallel_parts_for(
        threads, shape.samples * shape.heads, 1, [&](int part, int64_t begin, int64_t end) {
          for (int64_t unit = begin; unit < end; ++unit)
            run_unit(unit / shape.heads, unit % shape.heads, scratch + part * scratch_floats);
        });
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_attention_grad(const NodeSpec& spec, const CpuContext& context) {
  const AttentionShape shape = attention_shape(spec);
  const int64_t scratch_floats = GradScratch(shape, grad_blocks(shape), nullptr).floats;
  const auto unit_fn = HWY_DYNAMIC_DISPATCH(attention_grad_unit);
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    const AttentionData data = grad_data(launch, kMask);
    auto* scratch = scratch_at<float>(launch);
    parallel_parts_for(threads, shape.samples * shape.heads, 1,
                       [&](int part, int64_t begin, int64_t end) {
                         for (int64_t unit = begin; unit < end; ++unit) {
                           unit_fn(shape, data, unit / shape.heads, unit % shape.heads,
                                   scratch + part * scratch_floats);
                         }
                       });
    return ErrorCode::ok;
  });
}

}  // namespace snug
#endif  // HWY_ONCE
