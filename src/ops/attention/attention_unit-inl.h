// SPDX-License-Identifier: Apache-2.0
// Attention of one block of queries of one head, block by block of keys with a running maximum and
// sum (Rabe and Staats 2021; Dao et al. 2022). Legend in attention_launch_cpu.h.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_OPS_ATTENTION_UNIT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_OPS_ATTENTION_UNIT_INL_H_
#undef SNUG_OPS_ATTENTION_UNIT_INL_H_
#else
#define SNUG_OPS_ATTENTION_UNIT_INL_H_
#endif

#include <algorithm>
#include <limits>

#include "backend/cpu/math-inl.h"
#include "backend/cpu/philox-inl.h"
#include "backend/cpu/rows-inl.h"
#include "hwy/highway.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_gemm-inl.h"
#include "ops/attention/attention_launch_cpu.h"

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

/// One unit: queries [first, first + count) of one head. `extra` adds to products of queries and
/// keys: NoExtraScores, or what has its functions. `next` is the offset of the head that the thread
/// works on next, or -1.
template <class Extra>
HWY_INLINE void run_attention_unit(const AttentionShape& shape, const ForwardScratch& scratch,
                                   const AttentionData& data, int64_t sample, int64_t head,
                                   int64_t first, int64_t count, int64_t next, Extra& extra) {
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
  const QueryRange queries =
      shape.hides_queries ? queries_in(visible, first, count) : QueryRange{0, count};
  PhiloxRow random{};
  if (shape.has_dropout) {
    random = random_row_of_head(shape, data.rng, sample, head);
  }
  const DropoutRule rule{shape.threshold, shape.keep_scale};
  for (int64_t key = visible.begin; key < visible.end; key += blocks.keys) {
    const int64_t keys = std::min(blocks.keys, visible.end - key);
    const int64_t score_vectors = vectors_of(keys);
    const bool is_first = key == visible.begin && !is_windowed;
    fill_limits(mask == nullptr ? nullptr : mask + key, keys, scratch.limits);
    pack_transposed(data.k + base + key * width, width, keys, shape.columns, shape.scale,
                    scratch.keys);
    pack_rows(data.v + base + key * width, width, keys, shape.columns, 1.0F, scratch.values);
    extra.start_keys(scratch.keys, key, keys, first + queries.begin, first + queries.end);
    for (int64_t tile = queries.begin; tile < queries.end; tile += blocks.tile) {
      const int64_t rows = std::min(blocks.tile, queries.end - tile);
      if (is_outside(shape, key, keys, first + tile, rows)) continue;
      const float* q = data.q + base + (first + tile) * width;
      float* sums = scratch.sums + tile * sum_stride;
      const bool has_scores = extra.put_scores(q, width, first + tile, rows, scratch.scores);
      multiply_packed<false>(rows, keys, shape.columns, q, width, scratch.keys, scratch.scores,
                             blocks.score_stride, has_scores);
      for (int64_t i = 0; i < rows; ++i) {
        float* scores = scratch.scores + i * blocks.score_stride;
        if (is_first && next >= 0) prefetch_query(shape, data, next + (tile + i) * width);
        hide_outside(shape, first + tile + i, key, keys, scores);
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
  if (shape.hides_queries && mask != nullptr) {
    for (int64_t i = 0; i < count; ++i) {
      if (mask[first + i] != 0) continue;
      scratch.totals[i] = 0;
      std::fill_n(scratch.sums + i * sum_stride, sum_stride, 0.0F);
    }
  }
  finish_queries(shape, scratch, count, data.dst + base + first * width,
                 data.dst_lse + (sample * shape.heads + head) * shape.tokens + first);
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#endif
