// SPDX-License-Identifier: Apache-2.0
// The gradient of attention for one head of one sample: probabilities are recomputed tile by tile
// from q, k and lse; dq, dk and dv are added up in one order. Legend in attention_launch_cpu.h.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_OPS_ATTENTION_GRAD_UNIT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_OPS_ATTENTION_GRAD_UNIT_INL_H_
#undef SNUG_OPS_ATTENTION_GRAD_UNIT_INL_H_
#else
#define SNUG_OPS_ATTENTION_GRAD_UNIT_INL_H_
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

// scores: S becomes dropout(P), P = exp(S - lse). diff_scores: dP becomes dS = P * (dropout'(dP) -
// delta). `factors` is what dropout multiplies by.
HWY_INLINE void grad_block_row(float* scores, float* diff_scores, const float* limits,
                               const float* factors, int64_t vectors, float lse, float delta) {
  const F32 d;
  const int64_t lanes = lanes_f32();
  const V32 shift = hn::Set(d, lse);
  const V32 center = hn::Set(d, delta);
  for (int64_t i = 0; i < vectors * lanes; i += lanes) {
    const V32 s = hn::Min(hn::LoadU(d, scores + i), hn::LoadU(d, limits + i));
    const V32 p = exp_flushed(hn::Sub(s, shift));
    const V32 factor = hn::LoadU(d, factors + i);
    hn::StoreU(hn::Mul(p, factor), d, scores + i);
    const V32 slope = hn::MulSub(hn::LoadU(d, diff_scores + i), factor, center);
    hn::StoreU(hn::Mul(p, slope), d, diff_scores + i);
  }
}

// What one unit works on.
struct GradUnit {
  const AttentionShape& shape;
  const AttentionData& data;
  const GradScratch& scratch;
  PhiloxRow random;
  const uint8_t* mask;  // of the sample
  int64_t base;         // of the head's first element
  int64_t lse_base;
  int64_t stride;  // of padded rows of D columns
  int64_t next;    // offset of the next head, or -1
};

// Rows of D padded columns to rows of the head: dst = scale * src, or += .
HWY_INLINE void put_rows(const GradUnit& unit, const float* src, float scale, int64_t rows,
                         float* dst, bool accumulates) {
  const V32 factor = constant(scale);
  for (int64_t i = 0; i < rows; ++i) {
    const float* from = src + i * unit.stride;
    float* to = dst + i * unit.shape.stride();
    if (accumulates) {
      map_vectors(to, from, to, unit.shape.columns,
                  [=](V32 v, V32 old) HWY_ATTR { return hn::MulAdd(v, factor, old); });
    } else {
      map_vectors(to, from, unit.shape.columns, [=](V32 v) HWY_ATTR { return hn::Mul(v, factor); });
    }
  }
}

// One token of the next head, of every operand and result.
HWY_INLINE void prefetch_grad_query(const AttentionShape& shape, const AttentionData& data,
                                    int64_t offset) {
  for (const float* operand : {data.q, data.k, data.v, data.o, data.diff_o})
    prefetch_row(operand + offset, shape.columns);
  for (float* result : {data.diff_q, data.diff_k, data.diff_v})
    prefetch_row(result + offset, shape.columns);
}

HWY_INLINE void put_deltas(const GradUnit& unit, int64_t first, int64_t rows) {
  const int64_t at = unit.base + first * unit.shape.stride();
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = at + i * unit.shape.stride();
    unit.scratch.delta[first + i] =
        sum_row(unit.data.diff_o + row, unit.data.o + row, unit.shape.columns,
                [](V32 a, V32 b) HWY_ATTR { return hn::Mul(a, b); });
  }
}

// All queries [first, first + rows) against the packed keys [key, key + keys). `is_first`: they are
// the first that meet these keys.
template <class Extra>
HWY_NOINLINE void grad_tile(const GradUnit& unit, int64_t key, int64_t keys, bool is_first_key,
                            int64_t first, int64_t rows, bool is_first, Extra& extra) {
  const AttentionShape& shape = unit.shape;
  const GradScratch& scratch = unit.scratch;
  const int64_t width = shape.stride();
  const int64_t at = unit.base + first * width;
  const int64_t score_stride = scratch.blocks.score_stride;
  const float* q = unit.data.q + at;
  const float* diff_o = unit.data.diff_o + at;
  if (is_first_key) put_deltas(unit, first, rows);
  pack_rows(q, width, rows, shape.columns, 1.0F, scratch.queries);
  pack_rows(diff_o, width, rows, shape.columns, 1.0F, scratch.diff_o);
  const bool has_scores = extra.put_scores(q, width, first, rows, scratch.scores);
  multiply_packed<false>(rows, keys, shape.columns, q, width, scratch.keys_transposed,
                         scratch.scores, score_stride, has_scores);
  multiply_packed<false>(rows, keys, shape.columns, diff_o, width, scratch.values_transposed,
                         scratch.diff_scores, score_stride, false);
  const DropoutRule rule{shape.threshold, shape.keep_scale};
  for (int64_t i = 0; i < rows; ++i) {
    if (is_first_key && unit.next >= 0)
      prefetch_grad_query(shape, unit.data, unit.next + (first + i) * width);
    if (shape.has_dropout) {
      const auto counter = static_cast<uint64_t>(attention_quad(first + i, key));
      dropout_row(unit.random, rule, counter, scratch.ones, scratch.factors, keys);
    }
    hide_outside(shape, first + i, key, keys, scratch.scores + i * score_stride);
    grad_block_row(scratch.scores + i * score_stride, scratch.diff_scores + i * score_stride,
                   scratch.limits, shape.has_dropout ? scratch.factors : scratch.ones,
                   vectors_of(keys), unit.data.lse[unit.lse_base + first + i],
                   scratch.delta[first + i]);
    if (shape.hides_queries && unit.mask != nullptr && unit.mask[first + i] == 0) {
      std::fill_n(scratch.scores + i * score_stride, vectors_of(keys) * lanes_f32(), 0.0F);
      std::fill_n(scratch.diff_scores + i * score_stride, vectors_of(keys) * lanes_f32(), 0.0F);
    }
  }
  const bool adds = !is_first;
  multiply_packed<true>(keys, shape.columns, rows, scratch.scores, score_stride, scratch.diff_o,
                        scratch.diff_v, unit.stride, adds);
  multiply_packed<true>(keys, shape.columns, rows, scratch.diff_scores, score_stride,
                        scratch.queries, scratch.diff_k, unit.stride, adds);
  multiply_packed<false>(rows, shape.columns, keys, scratch.diff_scores, score_stride, scratch.keys,
                         scratch.diff_q, unit.stride, false);
  extra.add_gradients(scratch.diff_scores, first, rows, scratch.queries, scratch.diff_q);
  put_rows(unit, scratch.diff_q, 1.0F, rows, unit.data.diff_q + at, !is_first_key);
}

HWY_INLINE void zero_rows(const GradUnit& unit, float* dst, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    std::fill_n(dst + unit.base + row * unit.shape.stride(), unit.shape.columns, 0.0F);
  }
}

/// One unit: one head of one sample. `extra` adds to products of queries and keys, and takes the
/// gradients by scores: NoExtraScores, or what has its functions. `next` is the offset of the head
/// that the thread works on next, or -1.
template <class Extra>
HWY_INLINE void run_attention_grad_unit(const AttentionShape& shape, const GradScratch& scratch,
                                        const AttentionData& data, int64_t sample, int64_t head,
                                        int64_t next, Extra& extra) {
  const AttentionBlocks& blocks = scratch.blocks;
  const int64_t width = shape.stride();
  GradUnit unit{.shape = shape,
                .data = data,
                .scratch = scratch,
                .random = {},
                .mask = data.mask == nullptr ? nullptr : data.mask + sample * shape.tokens,
                .base = shape.head_offset(sample, head),
                .lse_base = (sample * shape.heads + head) * shape.tokens,
                .stride = vectors_of(shape.columns) * lanes_f32(),
                .next = next};
  if (shape.has_dropout) {
    unit.random = random_row_of_head(shape, data.rng, sample, head);
  }
  // Lanes beyond the last key are masked by the limits, but must hold numbers.
  std::fill_n(scratch.ones, blocks.keys, 1.0F);
  std::fill_n(scratch.factors, blocks.keys, 0.0F);
  const uint8_t* mask = unit.mask;
  const VisibleKeys visible = visible_keys(mask, shape.tokens);
  const QueryRange queries =
      shape.hides_queries ? queries_in(visible, 0, shape.tokens) : QueryRange{0, shape.tokens};
  // Behind a window the first keys are not the first of every query.
  const bool is_windowed = shape.window > 0;
  if (is_windowed) {
    put_deltas(unit, 0, shape.tokens);
    zero_rows(unit, data.diff_q, 0, shape.tokens);
  }
  for (int64_t key = visible.begin; key < visible.end; key += blocks.keys) {
    const int64_t keys = std::min(blocks.keys, visible.end - key);
    const QueryRange seeing = is_windowed
                                  ? QueryRange{std::max(queries.begin, key - shape.window),
                                               std::min(queries.end, key + keys + shape.window)}
                                  : queries;
    const int64_t at = unit.base + key * width;
    fill_limits(mask == nullptr ? nullptr : mask + key, keys, scratch.limits);
    pack_transposed(data.k + at, width, keys, shape.columns, shape.scale, scratch.keys_transposed);
    pack_transposed(data.v + at, width, keys, shape.columns, 1.0F, scratch.values_transposed);
    pack_rows(data.k + at, width, keys, shape.columns, shape.scale, scratch.keys);
    for (int64_t part = seeing.begin; part < seeing.end; part += blocks.part) {
      const int64_t end = std::min(part + blocks.part, seeing.end);
      extra.start_keys(scratch.keys_transposed, key, keys, part, end);
      for (int64_t first = part; first < end; first += blocks.queries) {
        grad_tile(unit, key, keys, key == visible.begin && !is_windowed, first,
                  std::min(blocks.queries, end - first), first == seeing.begin, extra);
      }
      extra.finish_keys(scratch.keys, scratch.diff_k);
    }
    put_rows(unit, scratch.diff_k, shape.scale, keys, data.diff_k + at, false);
    put_rows(unit, scratch.diff_v, 1.0F, keys, data.diff_v + at, false);
  }
  for (float* dst : {data.diff_k, data.diff_v}) {
    zero_rows(unit, dst, 0, std::min(visible.begin, visible.end));
    zero_rows(unit, dst, visible.end, shape.tokens);
  }
  const bool has_keys = visible.begin < visible.end;
  zero_rows(unit, data.diff_q, 0, has_keys ? queries.begin : shape.tokens);
  if (has_keys) zero_rows(unit, data.diff_q, queries.end, shape.tokens);
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#endif
