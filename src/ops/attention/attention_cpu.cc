// SPDX-License-Identifier: Apache-2.0
// CPU kernel of attention. A unit of work is a block of queries of one head of one sample; it is
// computed by one thread, so bits do not depend on their number. Legend in attention_launch_cpu.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/attention_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ops/attention/attention.h"
#include "ops/attention/attention_bf16_launch_cpu.h"
#include "ops/attention/attention_launch_cpu.h"
#include "ops/attention/attention_tiles_launch_cpu.h"
#include "ops/attention/attention_unit-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

void attention_unit(const AttentionShape& shape, const AttentionData& data, int64_t sample,
                    int64_t head, int64_t first, int64_t count, float* memory) {
  NoExtraScores none;
  run_attention_unit(shape, ForwardScratch(shape, forward_blocks(shape), memory), data, sample,
                     head, first, count,
                     count == shape.tokens ? next_head_offset(shape, sample, head) : -1, none);
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/kernel.h"
#include "base/threads.h"

namespace snug {

HWY_EXPORT(attention_unit);

namespace {

// Scratch of one thread, with copies of q and o of one unit and k and v of its head where they are
// in 16 bits.
int64_t forward_floats(const AttentionShape& shape, DType dtype) {
  const int64_t copies = dtype == DType::f32 ? 0 : copied_floats(shape, 4);
  return ForwardScratch(shape, forward_blocks(shape), nullptr).floats + copies;
}

int64_t forward_scratch(const NodeSpec& spec, const CpuContext& context) {
  const AttentionShape shape = attention_shape(spec);
  const int64_t parts =
      parallel_parts(context.threads, shape.samples * shape.heads * query_blocks(shape), 1);
  return parts * forward_floats(shape, spec.inputs[0].dtype) * static_cast<int64_t>(sizeof(float));
}

std::unique_ptr<Kernel> create_forward(const NodeSpec& spec, const CpuContext& context) {
  const AttentionShape shape = attention_shape(spec);
  const int64_t blocks = query_blocks(shape);
  const int64_t queries = forward_blocks(shape).queries;
  const int64_t scratch_floats = ForwardScratch(shape, forward_blocks(shape), nullptr).floats;
  const auto unit_fn = HWY_DYNAMIC_DISPATCH(attention_unit);
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    const AttentionData data{.q = input<float>(launch, 0),
                             .k = input<float>(launch, 1),
                             .v = input<float>(launch, 2),
                             .mask = input<uint8_t>(launch, 3),
                             .rng = input<int64_t>(launch, 4),
                             .dst = output<float>(launch, 0),
                             .dst_lse = output<float>(launch, 1)};
    auto* scratch = scratch_at<float>(launch);
    parallel_parts_for(threads, shape.samples * shape.heads * blocks, 1,
                       [&](int part, int64_t begin, int64_t end) {
                         for (int64_t unit = begin; unit < end; ++unit) {
                           const int64_t head = unit / blocks;
                           const int64_t first = unit % blocks * queries;
                           unit_fn(shape, data, head / shape.heads, head % shape.heads, first,
                                   std::min(queries, shape.tokens - first),
                                   scratch + part * scratch_floats);
                         }
                       });
    return ErrorCode::ok;
  });
}

// Rows in 16 bits: a unit works on copies of its head.
std::unique_ptr<Kernel> create_half_forward(const NodeSpec& spec, const CpuContext& context) {
  AttentionShape shape = attention_shape(spec);
  const int64_t blocks = query_blocks(shape);
  const int64_t queries = forward_blocks(shape).queries;
  const DType dtype = spec.inputs[0].dtype;
  const int64_t scratch_floats = forward_floats(shape, dtype);
  const auto unit_fn = HWY_DYNAMIC_DISPATCH(attention_unit);
  shape.is_one_head = true;
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    const auto run_unit = [&](int64_t unit, float* memory) {
      const int64_t sample = unit / blocks / shape.heads;
      const int64_t head = unit / blocks % shape.heads;
      const int64_t first = unit % blocks * queries;
      const int64_t count = std::min(queries, shape.tokens - first);
      HeadCopies copies(shape, dtype, memory);
      const float* q = copies.read(launch.inputs[0], sample, head, first, count);
      const float* k = copies.read(launch.inputs[1], sample, head, 0, shape.tokens);
      const float* v = copies.read(launch.inputs[2], sample, head, 0, shape.tokens);
      float* o = copies.take(count);
      // Units name their rows from the first of the head on.
      const int64_t skipped = first * shape.columns;
      const AttentionData data{.q = q - skipped,
                               .k = k,
                               .v = v,
                               .mask = input<uint8_t>(launch, 3),
                               .rng = input<int64_t>(launch, 4),
                               .dst = o - skipped,
                               .dst_lse = output<float>(launch, 1)};
      unit_fn(shape, data, sample, head, first, count, copies.rest());
      copies.write(o, launch.outputs[0], sample, head, first, count);
    };
    auto* scratch = scratch_at<float>(launch);
    parallel_parts_for(threads, shape.samples * shape.heads * blocks, 1,
                       [&](int part, int64_t begin, int64_t end) {
                         for (int64_t unit = begin; unit < end; ++unit)
                           run_unit(unit, scratch + part * scratch_floats);
                       });
    return ErrorCode::ok;
  });
}

}  // namespace

std::span<const CpuKernelDef> attention_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"attention", "simd:attention", "f32 f32 f32 bool i64 -> f32 f32", always, forward_scratch,
       create_forward},
      {"attention", "simd:attention_bf16_tiles", "bf16 bf16 bf16 bool i64 -> bf16 f32",
       needs_bf16_tiles, tile_attention_scratch, create_tile_attention},
      {"attention", "simd:attention_bf16_products", "bf16 bf16 bf16 bool i64 -> bf16 f32",
       needs_bf16_products, bf16_attention_scratch, create_bf16_attention},
      {"attention", "simd:attention_bf16", "bf16 bf16 bf16 bool i64 -> bf16 f32", always,
       forward_scratch, create_half_forward},
      {"attention", "simd:attention_f16", "f16 f16 f16 bool i64 -> f16 f32", always,
       forward_scratch, create_half_forward},
      {"attention_grad", "simd:attention_grad", "f32 f32 f32 f32 f32 f32 bool i64 -> f32 f32 f32",
       always, attention_grad_scratch, create_attention_grad},
      {"attention_grad", "simd:attention_grad_bf16_tiles",
       "bf16 bf16 bf16 bf16 f32 bf16 bool i64 -> bf16 bf16 bf16", needs_bf16_tiles,
       tile_attention_grad_scratch, create_tile_attention_grad},
      {"attention_grad", "simd:attention_grad_bf16_products",
       "bf16 bf16 bf16 bf16 f32 bf16 bool i64 -> bf16 bf16 bf16", needs_bf16_products,
       bf16_attention_grad_scratch, create_bf16_attention_grad},
      {"attention_grad", "simd:attention_grad_bf16",
       "bf16 bf16 bf16 bf16 f32 bf16 bool i64 -> bf16 bf16 bf16", always, attention_grad_scratch,
       create_half_attention_grad},
      {"attention_grad", "simd:attention_grad_f16",
       "f16 f16 f16 f16 f32 f16 bool i64 -> f16 f16 f16", always, attention_grad_scratch,
       create_half_attention_grad},
  };
  return kernels;
}

}  // namespace snug
#endif  // HWY_ONCE
