// SPDX-License-Identifier: Apache-2.0
// Attention of one block of queries of one head in bf16, whatever multiplies: blocks and the
// running maximum and sum are those of attention_unit-inl.h. Empty where Highway's target is not
// AVX-512.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_OPS_ATTENTION_BF16_UNIT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_OPS_ATTENTION_BF16_UNIT_INL_H_
#undef SNUG_OPS_ATTENTION_BF16_UNIT_INL_H_
#else
#define SNUG_OPS_ATTENTION_BF16_UNIT_INL_H_
#endif

#include <algorithm>
#include <limits>

#include "backend/cpu/math-inl.h"
#include "backend/cpu/philox-inl.h"
#include "hwy/highway.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_bf16_gemm-inl.h"
#include "ops/attention/attention_bf16_launch_cpu.h"

#if SNUG_BF16_TARGET
HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

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
  const int64_t stride = scratch.blocks.padded_columns;
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

/// As Bf16AttentionUnit says. `Products` packs a block of keys and values, and multiplies with
/// them; kKeyPad is what it pads keys to.
template <class Products>
SNUG_BF16_ATTR HWY_INLINE void run_bf16_attention_unit(const AttentionShape& shape,
                                                       const Bf16ForwardScratch& scratch,
                                                       const Bf16AttentionData& data,
                                                       int64_t sample, int64_t head, int64_t first,
                                                       int64_t count, int64_t next) {
  const Products products{shape, scratch};
  const AttentionBlocks& blocks = scratch.blocks;
  const int64_t width = shape.stride();
  const int64_t base = shape.head_offset(sample, head);
  const uint8_t* mask = data.mask == nullptr ? nullptr : data.mask + sample * shape.tokens;
  const VisibleKeys visible =
      keys_in_window(shape, visible_keys(mask, shape.tokens), first, first + count);
  const int64_t column_vectors = vectors_of(shape.columns);
  const int64_t sum_stride = blocks.padded_columns;
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
  for (int64_t key = visible.begin; key < visible.end; key += blocks.keys) {
    const int64_t keys = std::min(blocks.keys, visible.end - key);
    const int64_t padded_keys = round_up(keys, Products::kKeyPad);
    const bool is_first = key == visible.begin && !is_windowed;
    const int64_t at = base + key * width;
    fill_limits(mask == nullptr ? nullptr : mask + key, keys, padded_keys, scratch.limits);
    products.pack_keys(data.k + at, data.v + at, width, keys);
    for (int64_t tile = 0; tile < count; tile += blocks.tile) {
      const int64_t rows = std::min(blocks.tile, count - tile);
      if (is_outside(shape, key, keys, first + tile, rows)) continue;
      float* sums = scratch.sums + tile * sum_stride;
      products.put_scores(data.q + base + (first + tile) * width, width, rows, keys);
      for (int64_t i = 0; i < rows; ++i) {
        float* scores = scratch.scores + i * blocks.score_stride;
        if (is_first)
          prefetch_bf16_row(data.dst + base + (first + tile + i) * width, shape.columns);
        if (is_first && next >= 0) {
          for (const uint16_t* operand : {data.q, data.k, data.v})
            prefetch_bf16_row(operand + next + (tile + i) * width, shape.columns);
        }
        hide_outside(shape, first + tile + i, key, keys, scores);
        softmax_bf16_row(scores, scratch.limits, padded_keys / lanes_f32(), shape.scale, is_first,
                         scratch.largest + tile + i, scratch.totals + tile + i,
                         sums + i * sum_stride, column_vectors, dropout,
                         static_cast<uint64_t>(attention_quad(first + tile + i, key)));
      }
      products.add_values(rows, keys, sums, !is_first);
    }
  }
  finish_bf16_queries(shape, scratch, count, data.dst + base + first * width,
                      data.dst_lse + (sample * shape.heads + head) * shape.tokens + first);
}
}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();
#endif  // SNUG_BF16_TARGET

#endif
