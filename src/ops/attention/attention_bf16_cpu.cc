// SPDX-License-Identifier: Apache-2.0
// CPU kernel of attention in bf16 where the processor multiplies that; elsewhere attention_cpu.cc
// works on copies in f32. Units of work, blocks and the running maximum and sum are those of
// attention_unit-inl.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/attention_bf16_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/math-inl.h"
#include "backend/cpu/philox-inl.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_bf16_gemm-inl.h"
#include "ops/attention/attention_bf16_launch_cpu.h"

namespace snug {
/// Queries [first, first + count) of one head of one sample; `next` is the offset of the head that
/// the thread works on next, or -1.
using Bf16AttentionUnit = void (*)(const AttentionShape& shape, const Bf16AttentionData& data,
                                   int64_t sample, int64_t head, int64_t first, int64_t count,
                                   int64_t next, float* memory);
}  // namespace snug

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

#if SNUG_BF16_TARGET

// What dropout multiplies by along a row.
struct Bf16Dropout {
  bool has_dropout;
  PhiloxRow row;
  DropoutRule rule;
};

// Turns one row of scores into exp(score - maximum), dropped and in bf16 at the start of the row,
// and brings what earlier blocks left to the new maximum.
SNUG_BF16_ATTR HWY_INLINE void softmax_bf16_row(float* scores, const float* limits, int64_t vectors,
                                                float scale, bool is_first, float* largest,
                                                float* total, float* sums, int64_t sum_vectors,
                                                const Bf16Dropout& dropout, uint64_t counter) {
  const F32 d;
  const U32 du;
  const int64_t lanes = lanes_f32();
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  const V32 factor = hn::Set(d, scale);
  V32 block_max = hn::Set(d, kLowest);
  for (int64_t v = 0; v < vectors; ++v) {
    const V32 s = hn::Min(hn::Mul(hn::LoadU(d, scores + v * lanes), factor),
                          hn::LoadU(d, limits + v * lanes));
    block_max = hn::Max(block_max, s);
    hn::StoreU(s, d, scores + v * lanes);
  }
  const float before = is_first ? kLowest : *largest;
  const float now = std::max(before, hn::GetLane(hn::MaxOfLanes(d, block_max)));
  // No visible key yet: every exponential is 0 whatever is subtracted.
  const V32 shift = hn::Set(d, now == kLowest ? 0.0F : now);
  const hn::Vec<U64> offsets = philox_lanes();
  const hn::Vec<U32> threshold = hn::Set(du, dropout.rule.threshold);
  const V32 keep_scale = hn::Set(d, dropout.rule.scale);
  V32 sum0 = hn::Zero(d);
  V32 sum1 = hn::Zero(d);
  for (int64_t v = 0; v < vectors; v += 2) {
    V32 e0 = exp_flushed(hn::Sub(hn::LoadU(d, scores + v * lanes), shift));
    V32 e1 = hn::Zero(d);
    if (v + 1 < vectors) e1 = exp_flushed(hn::Sub(hn::LoadU(d, scores + (v + 1) * lanes), shift));
    sum0 = hn::Add(sum0, e0);
    sum1 = hn::Add(sum1, e1);
    if (dropout.has_dropout) {
      const PhiloxWords words =
          philox_words(dropout.row, offsets, counter + static_cast<uint64_t>(v * lanes / 4));
      e0 = hn::IfThenZeroElse(hn::RebindMask(d, hn::Lt(words.first, threshold)),
                              hn::Mul(e0, keep_scale));
      e1 = hn::IfThenZeroElse(hn::RebindMask(d, hn::Lt(words.second, threshold)),
                              hn::Mul(e1, keep_scale));
    }
    hn::StoreU(round_both(e0, e1), du, reinterpret_cast<uint32_t*>(scores) + v * lanes / 2);
  }
  const float block_total = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  *largest = now;
  if (is_first) {
    *total = block_total;
    return;
  }
  const V32 shrink = exp_flushed(hn::Sub(hn::Set(d, before), shift));
  *total = *total * hn::GetLane(shrink) + block_total;
  for (int64_t v = 0; v < sum_vectors; ++v)
    hn::StoreU(hn::Mul(hn::LoadU(d, sums + v * lanes), shrink), d, sums + v * lanes);
}

// o = sums / totals and lse = largest + log(totals), or zeros where no key is visible.
SNUG_BF16_ATTR HWY_INLINE void finish_bf16_queries(const AttentionShape& shape,
                                                   const Bf16ForwardScratch& scratch, int64_t count,
                                                   uint16_t* o, float* lse) {
  const int64_t lanes = lanes_f32();
  const int64_t stride = vectors_of(shape.columns) * lanes;
  for (int64_t i = 0; i < count; ++i) {
    const float total = scratch.totals[i];
    const V32 factor = constant(total == 0 ? 0.0F : 1.0F / total);
    put_bf16_row(scratch.sums + i * stride, factor, shape.columns, o + i * shape.stride());
  }
  map_vectors(lse, scratch.totals, scratch.largest, count, [](V32 total, V32 largest) HWY_ATTR {
    const V32 value = hn::Add(largest, log_full(total));
    return hn::IfThenZeroElse(hn::Eq(total, hn::Zero(F32())), value);
  });
}

SNUG_BF16_ATTR void bf16_attention_unit(const AttentionShape& shape, const Bf16AttentionData& data,
                                        int64_t sample, int64_t head, int64_t first, int64_t count,
                                        int64_t next, float* memory) {
  const Bf16ForwardScratch scratch(shape, forward_blocks(shape), memory);
  const AttentionBlocks& blocks = scratch.blocks;
  const int64_t width = shape.stride();
  const int64_t base = shape.head_offset(sample, head);
  const uint8_t* mask = data.mask == nullptr ? nullptr : data.mask + sample * shape.tokens;
  const VisibleKeys visible =
      keys_in_window(shape, visible_keys(mask, shape.tokens), first, first + count);
  const int64_t column_vectors = vectors_of(shape.columns);
  const int64_t sum_stride = column_vectors * lanes_f32();
  std::fill_n(scratch.totals, count, 0.0F);
  std::fill_n(scratch.largest, count, 0.0F);
  // Behind a window the first keys of the unit are not the first of every query.
  const bool is_windowed = shape.window > 0;
  if (is_windowed) std::fill_n(scratch.largest, count, -std::numeric_limits<float>::infinity());
  if (is_windowed || visible.begin >= visible.end)
    std::fill_n(scratch.sums, count * sum_stride, 0.0F);
  Bf16Dropout dropout{
      .has_dropout = shape.has_dropout, .row = {}, .rule = {shape.threshold, shape.keep_scale}};
  if (shape.has_dropout) {
    dropout.row = random_row_of_head(shape, data.rng, sample, head);
  }
  const PairOperand queries{scratch.queries, 2 * column_pairs(shape)};
  const PairOperand probabilities{reinterpret_cast<const uint16_t*>(scratch.scores),
                                  2 * blocks.score_stride};
  for (int64_t key = visible.begin; key < visible.end; key += blocks.keys) {
    const int64_t keys = std::min(blocks.keys, visible.end - key);
    const int64_t score_vectors = vectors_of(keys);
    const bool is_first = key == visible.begin && !is_windowed;
    const int64_t at = base + key * width;
    fill_limits(mask == nullptr ? nullptr : mask + key, keys, scratch.limits);
    pack_pairs_transposed(data.k + at, width, keys, shape.columns, scratch.keys);
    pack_row_pairs(data.v + at, width, keys, shape.columns, scratch.values);
    for (int64_t tile = 0; tile < count; tile += blocks.tile) {
      const int64_t rows = std::min(blocks.tile, count - tile);
      if (is_outside(shape, key, keys, first + tile, rows)) continue;
      float* sums = scratch.sums + tile * sum_stride;
      copy_rows(data.q + base + (first + tile) * width, width, rows, shape.columns,
                scratch.queries);
      multiply_pairs<false>(rows, keys, shape.columns, queries, scratch.keys, scratch.scores,
                            blocks.score_stride, false);
      for (int64_t i = 0; i < rows; ++i) {
        float* scores = scratch.scores + i * blocks.score_stride;
        if (is_first && next >= 0) {
          for (const uint16_t* operand : {data.q, data.k, data.v})
            prefetch_bf16_row(operand + next + (tile + i) * width, shape.columns);
        }
        hide_outside(shape, first + tile + i, key, keys, scores);
        softmax_bf16_row(scores, scratch.limits, score_vectors, shape.scale, is_first,
                         scratch.largest + tile + i, scratch.totals + tile + i,
                         sums + i * sum_stride, column_vectors, dropout,
                         static_cast<uint64_t>(attention_quad(first + tile + i, key)));
      }
      multiply_pairs<false>(rows, shape.columns, keys, probabilities, scratch.values, sums,
                            sum_stride, !is_first);
    }
  }
  finish_bf16_queries(shape, scratch, count, data.dst + base + first * width,
                      data.dst_lse + (sample * shape.heads + head) * shape.tokens + first);
}
#endif

/// Null where the target has no such products.
Bf16AttentionUnit find_bf16_attention_unit() {
#if SNUG_BF16_TARGET
  return bf16_attention_unit;
#else
  return nullptr;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/kernel.h"
#include "backend/cpu/onednn.h"
#include "base/threads.h"

namespace snug {

HWY_EXPORT(find_bf16_attention_unit);

namespace {

int64_t bf16_forward_floats(const AttentionShape& shape) {
  return Bf16ForwardScratch(shape, forward_blocks(shape), nullptr).floats;
}

}  // namespace

std::string needs_bf16_products(const NodeSpec& /*spec*/, const CpuContext& /*context*/) {
  const bool has_them =
      has_bf16_products() && HWY_DYNAMIC_DISPATCH(find_bf16_attention_unit)() != nullptr;
  return has_them ? "" : "no bf16 instructions here";
}

int64_t bf16_attention_scratch(const NodeSpec& spec, const CpuContext& context) {
  const AttentionShape shape = attention_shape(spec);
  const int64_t parts =
      parallel_parts(context.threads, shape.samples * shape.heads * query_blocks(shape), 1);
  return parts * bf16_forward_floats(shape) * static_cast<int64_t>(sizeof(float));
}

std::unique_ptr<Kernel> create_bf16_attention(const NodeSpec& spec, const CpuContext& context) {
  const AttentionShape shape = attention_shape(spec);
  const int64_t blocks = query_blocks(shape);
  const int64_t queries = forward_blocks(shape).queries;
  const int64_t scratch_floats = bf16_forward_floats(shape);
  const Bf16AttentionUnit unit_fn = HWY_DYNAMIC_DISPATCH(find_bf16_attention_unit)();
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    const Bf16AttentionData data{.q = input<uint16_t>(launch, 0),
                                 .k = input<uint16_t>(launch, 1),
                                 .v = input<uint16_t>(launch, 2),
                                 .mask = input<uint8_t>(launch, 3),
                                 .rng = input<int64_t>(launch, 4),
                                 .dst = output<uint16_t>(launch, 0),
                                 .dst_lse = output<float>(launch, 1)};
    auto* scratch = scratch_at<float>(launch);
    parallel_parts_for(
        threads, shape.samples * shape.heads * blocks, 1,
        [&](int part, int64_t begin, int64_t end) {
          for (int64_t unit = begin; unit < end; ++unit) {
            const int64_t sample = unit / blocks / shape.heads;
            const int64_t head = unit / blocks % shape.heads;
            const int64_t first = unit % blocks * queries;
            const int64_t next = blocks == 1 ? next_head_offset(shape, sample, head) : -1;
            unit_fn(shape, data, sample, head, first, std::min(queries, shape.tokens - first), next,
                    scratch + part * scratch_floats);
          }
        });
    return ErrorCode::ok;
  });
}

}  // namespace snug
#endif  // HWY_ONCE
