// SPDX-License-Identifier: Apache-2.0
// CPU kernel of attention, block by block of keys with a running maximum and sum (Rabe and Staats
// 2021; Dao et al. 2022). A unit of work is a block of queries of one head of one sample; it is
// computed by one thread, so bits do not depend on their number. Legend in attention_cpu.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/attention_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <limits>

#include "backend/cpu/math-inl.h"
#include "backend/cpu/philox-inl.h"
#include "backend/cpu/rows-inl.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_cpu.h"
#include "ops/attention/attention_gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// Turns one row of scores into exp(score - maximum), and brings what earlier blocks left to the new
// maximum.
HWY_INLINE void softmax_block_row(float* scores, const float* limits, int64_t vectors,
                                  bool is_first, float* largest, float* total, float* sums,
                                  int64_t sum_vectors) {
  const F32 d;
  const int64_t lanes = lanes_f32();
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  V32 block_max = hn::Set(d, kLowest);
  for (int64_t v = 0; v < vectors; ++v) {
    const V32 s = hn::Min(hn::LoadU(d, scores + v * lanes), hn::LoadU(d, limits + v * lanes));
    block_max = hn::Max(block_max, s);
    hn::StoreU(s, d, scores + v * lanes);
  }
  const float before = is_first ? kLowest : *largest;
  const float now = std::max(before, hn::GetLane(hn::MaxOfLanes(d, block_max)));
  // No visible key yet: every exponential is 0 whatever is subtracted.
  const V32 shift = hn::Set(d, now == kLowest ? 0.0F : now);
  V32 sum = hn::Zero(d);
  for (int64_t v = 0; v < vectors; ++v) {
    const V32 e = exp_flushed(hn::Sub(hn::LoadU(d, scores + v * lanes), shift));
    sum = hn::Add(sum, e);
    hn::StoreU(e, d, scores + v * lanes);
  }
  const float block_total = hn::GetLane(hn::SumOfLanes(d, sum));
  *largest = now;
  if (is_first) {
    *total = block_total;
    return;
  }
  const V32 shrink = exp_flushed(hn::Sub(hn::Set(d, before), shift));
  *total = *total * hn::GetLane(shrink) + block_total;
  for (int64_t v = 0; v < sum_vectors; ++v) {
    hn::StoreU(hn::Mul(hn::LoadU(d, sums + v * lanes), shrink), d, sums + v * lanes);
  }
}

// o = sums / totals and lse = largest + log(totals), or zeros where no key is visible.
HWY_INLINE void finish_queries(const AttentionShape& shape, const ForwardScratch& scratch,
                               int64_t count, float* o, float* lse) {
  const int64_t stride = vectors_of(shape.columns) * lanes_f32();
  for (int64_t i = 0; i < count; ++i) {
    const float total = scratch.totals[i];
    const V32 factor = constant(total == 0 ? 0.0F : 1.0F / total);
    map_vectors(o + i * shape.stride(), scratch.sums + i * stride, shape.columns,
                [=](V32 v) HWY_ATTR { return hn::Mul(v, factor); });
  }
  map_vectors(lse, scratch.totals, scratch.largest, count, [](V32 total, V32 largest) HWY_ATTR {
    const V32 value = hn::Add(largest, log_full(total));
    return hn::IfThenZeroElse(hn::Eq(total, hn::Zero(F32())), value);
  });
}

// One token of the next head, of every operand and of the result.
HWY_INLINE void prefetch_query(const AttentionShape& shape, const AttentionData& data,
                               int64_t offset) {
  for (const float* operand : {data.q, data.k, data.v, static_cast<const float*>(data.dst)}) {
    prefetch_row(operand + offset, shape.columns);
  }
}

// One unit: queries [first, first + count) of one head.
void attention_unit(const AttentionShape& shape, const AttentionData& data, int64_t sample,
                    int64_t head, int64_t first, int64_t count, float* memory) {
  const ForwardScratch scratch(shape, memory);
  const AttentionBlocks& blocks = scratch.blocks;
  const int64_t width = shape.stride();
  const int64_t base = shape.head_offset(sample, head);
  const uint8_t* mask = data.mask == nullptr ? nullptr : data.mask + sample * shape.tokens;
  const VisibleKeys visible = visible_keys(mask, shape.tokens);
  const int64_t column_vectors = vectors_of(shape.columns);
  const int64_t sum_stride = column_vectors * lanes_f32();
  std::fill_n(scratch.totals, count, 0.0F);
  std::fill_n(scratch.largest, count, 0.0F);
  if (visible.begin == visible.end) std::fill_n(scratch.sums, count * sum_stride, 0.0F);
  PhiloxRow random{};
  if (shape.has_dropout) {
    random =
        philox_row(static_cast<uint64_t>(data.rng[0]), static_cast<uint32_t>(data.rng[2] + sample),
                   static_cast<uint32_t>(data.rng[1]),
                   static_cast<uint32_t>(attention_ordinal(shape.ordinal, head)));
  }
  const DropoutRule rule{shape.threshold, shape.keep_scale};
  const int64_t next = count == shape.tokens ? next_head_offset(shape, sample, head) : -1;
  for (int64_t key = visible.begin; key < visible.end; key += blocks.keys) {
    const int64_t keys = std::min(blocks.keys, visible.end - key);
    const int64_t score_vectors = vectors_of(keys);
    const bool is_first = key == visible.begin;
    fill_limits(mask == nullptr ? nullptr : mask + key, keys, scratch.limits);
    pack_transposed(data.k + base + key * width, width, keys, shape.columns, shape.scale,
                    scratch.keys);
    pack_rows(data.v + base + key * width, width, keys, shape.columns, 1.0F, scratch.values);
    for (int64_t tile = 0; tile < count; tile += blocks.tile) {
      const int64_t rows = std::min(blocks.tile, count - tile);
      const float* q = data.q + base + (first + tile) * width;
      float* sums = scratch.sums + tile * sum_stride;
      multiply_packed<false>(rows, keys, shape.columns, q, width, scratch.keys, scratch.scores,
                             blocks.score_stride, false);
      for (int64_t i = 0; i < rows; ++i) {
        float* scores = scratch.scores + i * blocks.score_stride;
        if (is_first && next >= 0) prefetch_query(shape, data, next + (tile + i) * width);
        softmax_block_row(scores, scratch.limits, score_vectors, is_first,
                          scratch.largest + tile + i, scratch.totals + tile + i,
                          sums + i * sum_stride, column_vectors);
        if (shape.has_dropout) {
          const auto counter = static_cast<uint64_t>(attention_quad(first + tile + i, key));
          dropout_row(random, rule, counter, scores, scores, keys);
        }
      }
      multiply_packed<false>(rows, shape.columns, keys, scratch.scores, blocks.score_stride,
                             scratch.values, sums, sum_stride, !is_first);
    }
  }
  finish_queries(shape, scratch, count, data.dst + base + first * width,
                 data.dst_lse + (sample * shape.heads + head) * shape.tokens + first);
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>

#include "backend/cpu/kernel.h"
#include "base/threads.h"

namespace snug {

HWY_EXPORT(attention_unit);

AttentionShape attention_shape(const NodeSpec& spec) {
  const Shape& q = spec.inputs[0].shape;
  AttentionShape shape;
  shape.samples = q[0];
  shape.tokens = q[1];
  shape.heads = spec.attrs.int64("heads");
  shape.columns = q[2] / shape.heads;
  shape.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.columns)));
  const double rate = spec.attrs.real("rate");
  shape.has_dropout = rate > 0;
  shape.threshold = dropout_threshold(rate);
  shape.keep_scale = static_cast<float>(1 / (1 - rate));
  shape.ordinal = static_cast<uint32_t>(spec.attrs.int64("ordinal"));
  return shape;
}

namespace {

// Units of work: blocks of queries of every head.
int64_t query_blocks(const AttentionShape& shape) {
  if (shape.tokens == 0) return 0;
  const int64_t queries = forward_blocks(shape).queries;
  return (shape.tokens + queries - 1) / queries;
}

// Of one thread: q and o of one unit, k and v of its head where they are in 16 bits.
int64_t forward_floats(const AttentionShape& shape, DType dtype) {
  const int64_t copies = dtype == DType::f32 ? 0 : copied_floats(shape, 4);
  return ForwardScratch(shape, nullptr).floats + copies;
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
  const int64_t scratch_floats = ForwardScratch(shape, nullptr).floats;
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

const float* HeadCopies::read(const std::byte* data, int64_t sample, int64_t head, int64_t first,
                              int64_t rows) {
  float* copy = take(rows);
  for (int64_t i = 0; i < rows; ++i)
    (void)rows_.read(data, offset(sample, head, first + i), shape_.columns,
                     copy + i * shape_.columns);
  return copy;
}

void HeadCopies::write(const float* copy, std::byte* data, int64_t sample, int64_t head,
                       int64_t first, int64_t rows) const {
  for (int64_t i = 0; i < rows; ++i)
    rows_.write(copy + i * shape_.columns, data, offset(sample, head, first + i), shape_.columns);
}

std::span<const CpuKernelDef> attention_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"attention", "simd:attention", "f32 f32 f32 bool i64 -> f32 f32", always, forward_scratch,
       create_forward},
      {"attention", "simd:attention_bf16", "bf16 bf16 bf16 bool i64 -> bf16 f32", always,
       forward_scratch, create_half_forward},
      {"attention", "simd:attention_f16", "f16 f16 f16 bool i64 -> f16 f32", always,
       forward_scratch, create_half_forward},
      {"attention_grad", "simd:attention_grad", "f32 f32 f32 f32 f32 f32 bool i64 -> f32 f32 f32",
       always, attention_grad_scratch, create_attention_grad},
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
