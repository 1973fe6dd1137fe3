// SPDX-License-Identifier: Apache-2.0
// CPU kernel of attention_grad in bf16 where the processor multiplies that; elsewhere
// attention_grad_cpu.cc works on copies in f32, and attention_grad_tiles_cpu.cc on tiles. Units of
// work and blocks are those of attention_grad_unit-inl.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/attention_grad_bf16_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/math-inl.h"
#include "backend/cpu/philox-inl.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_bf16_gemm-inl.h"
#include "ops/attention/attention_bf16_grad_rows-inl.h"
#include "ops/attention/attention_bf16_launch_cpu.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

#if SNUG_BF16_TARGET

// What one unit works on.
struct Bf16GradUnit {
  const AttentionShape& shape;
  const Bf16AttentionData& data;
  const Bf16GradScratch& scratch;
  PhiloxRow random;
  DropoutRule rule;
  Bf16HeadRows head;
  int64_t lse_base;
  int64_t stride;  // of padded rows of D columns
  int64_t next;    // offset of the next head, or -1
};

// Two queries and a block of keys: four rows of scratch (Bf16GradScratch).
struct PairRows {
  float* first;         // row 0 of four
  int64_t stride;       // to the next
  const float* limits;  // of the keys
  float shift[2];       // lse
  float center[2];      // delta
  uint64_t counter[2];  // of the rows' random words
};

// Vectors v and v + 1 of the rows: S and dP become dropout(P), P = exp(S - lse), and
// dS = P * (dropout'(dP) - delta), in bf16.
template <bool kSecondRow, bool kSecondVector>
SNUG_BF16_ATTR HWY_INLINE void grad_pair_step(const Bf16GradUnit& unit, const PairRows& rows,
                                              SideBySide order, hn::Vec<U64> offsets, int64_t v) {
  const F32 d;
  const U32 du;
  const int64_t lanes = lanes_f32();
  const V32 scale = hn::Set(d, unit.shape.scale);
  const auto load = [&](int64_t row, int64_t vector) HWY_ATTR {
    return hn::LoadU(d, rows.first + row * rows.stride + vector * lanes);
  };
  V32 p[2][2];
  V32 ds[2][2];
  HWY_UNROLL(2)
  for (int64_t i = 0; i < 2; ++i) {
    V32 factor[2];
    if (unit.shape.has_dropout && (i == 0 || kSecondRow)) {
      const PhiloxWords words = philox_words(
          unit.random, offsets, rows.counter[i] + static_cast<uint64_t>(v * lanes / 4));
      const hn::Vec<U32> threshold = hn::Set(du, unit.rule.threshold);
      const V32 keep = hn::Set(d, unit.rule.scale);
      factor[0] = hn::IfThenZeroElse(hn::RebindMask(d, hn::Lt(words.first, threshold)), keep);
      factor[1] = hn::IfThenZeroElse(hn::RebindMask(d, hn::Lt(words.second, threshold)), keep);
    } else {
      factor[0] = hn::Set(d, 1.0F);
      factor[1] = factor[0];
    }
    HWY_UNROLL(2)
    for (int64_t j = 0; j < 2; ++j) {
      if ((i > 0 && !kSecondRow) || (j > 0 && !kSecondVector)) {
        p[i][j] = hn::Zero(d);
        ds[i][j] = hn::Zero(d);
        continue;
      }
      const V32 s =
          hn::Min(hn::Mul(load(2 * i, v + j), scale), hn::LoadU(d, rows.limits + (v + j) * lanes));
      const V32 plain = exp_flushed(hn::Sub(s, hn::Set(d, rows.shift[i])));
      const V32 slope = hn::MulSub(load(2 * i + 1, v + j), factor[j], hn::Set(d, rows.center[i]));
      p[i][j] = hn::Mul(plain, factor[j]);
      ds[i][j] = hn::Mul(plain, slope);
    }
  }
  const auto row = [&](int64_t i) {
    return reinterpret_cast<uint32_t*>(rows.first + i * rows.stride);
  };
  hn::StoreU(round_both(ds[0][0], ds[0][1]), du, row(1) + v * lanes / 2);
  if constexpr (kSecondRow) hn::StoreU(round_both(ds[1][0], ds[1][1]), du, row(3) + v * lanes / 2);
  HWY_UNROLL(2)
  for (int64_t j = 0; j < (kSecondVector ? 2 : 1); ++j) {
    const int64_t at = (v + j) * lanes;
    hn::StoreU(interleave(order, round_both(p[0][j], p[1][j])), du, row(0) + at);
    hn::StoreU(interleave(order, round_both(ds[0][j], ds[1][j])), du, row(2) + at);
  }
}

template <bool kSecondRow>
SNUG_BF16_ATTR HWY_NOINLINE void grad_pair_rows(const Bf16GradUnit& unit, const PairRows& rows,
                                                int64_t vectors) {
  const SideBySide order = side_by_side();
  const hn::Vec<U64> offsets = philox_lanes();
  int64_t v = 0;
  for (; v + 2 <= vectors; v += 2) grad_pair_step<kSecondRow, true>(unit, rows, order, offsets, v);
  if (v < vectors) grad_pair_step<kSecondRow, false>(unit, rows, order, offsets, v);
}

// Queries [first, first + rows) against the packed keys [key, key + keys). `is_first`: they are the
// first that meet these keys.
SNUG_BF16_ATTR HWY_NOINLINE void bf16_grad_tile(const Bf16GradUnit& unit, int64_t key, int64_t keys,
                                                int64_t first, int64_t rows, bool is_first) {
  const AttentionShape& shape = unit.shape;
  const Bf16GradScratch& scratch = unit.scratch;
  const int64_t width = shape.stride();
  const int64_t at = unit.head.at(first);
  const int64_t stride = scratch.blocks.score_stride;
  const int64_t row_pairs = 2 * column_pairs(shape);
  pack_row_pairs(unit.data.q + at, width, rows, shape.columns, scratch.queries);
  pack_row_pairs(unit.data.diff_o + at, width, rows, shape.columns, scratch.diff_o);
  copy_rows(unit.data.q + at, width, rows, shape.columns, scratch.query_rows);
  copy_rows(unit.data.diff_o + at, width, rows, shape.columns, scratch.diff_o_rows);
  multiply_pairs<false>(rows, keys, shape.columns, {scratch.query_rows, row_pairs},
                        scratch.keys_transposed, scratch.scores, 2 * stride, false);
  multiply_pairs<false>(rows, keys, shape.columns, {scratch.diff_o_rows, row_pairs},
                        scratch.values_transposed, scratch.scores + stride, 2 * stride, false);
  for (int64_t i = 0; i < rows; i += 2) {
    PairRows pair{.first = scratch.scores + 2 * i * stride,
                  .stride = stride,
                  .limits = scratch.limits,
                  .shift = {},
                  .center = {},
                  .counter = {}};
    const int64_t count = std::min<int64_t>(2, rows - i);
    for (int64_t j = 0; j < count; ++j) {
      const int64_t query = first + i + j;
      pair.shift[j] = unit.data.lse[unit.lse_base + query];
      pair.center[j] = scratch.delta[query];
      pair.counter[j] = static_cast<uint64_t>(attention_quad(query, key));
      hide_outside(shape, query, key, keys, pair.first + 2 * j * stride);
      if (unit.next >= 0) prefetch_bf16_grad(shape, unit.data, unit.next, query);
    }
    if (count == 2) {
      grad_pair_rows<true>(unit, pair, vectors_of(keys));
    } else {
      grad_pair_rows<false>(unit, pair, vectors_of(keys));
    }
  }
  const auto* written = reinterpret_cast<const uint16_t*>(scratch.scores);
  const int64_t row = 2 * stride;  // of a float's row, in bf16
  const bool adds = !is_first;
  multiply_pairs<true>(keys, shape.columns, rows, {written, 4 * row}, scratch.diff_o,
                       scratch.diff_v, unit.stride, adds);
  multiply_pairs<true>(keys, shape.columns, rows, {written + 2 * row, 4 * row}, scratch.queries,
                       scratch.diff_k, unit.stride, adds);
  multiply_pairs<false>(rows, shape.columns, keys, {written + row, 2 * row}, scratch.keys,
                        scratch.diff_q, unit.stride, false);
  if (scratch.all_diff_q == nullptr) {
    put_bf16_rows(unit.head, scratch.diff_q, unit.stride, shape.scale, first, rows,
                  unit.data.diff_q);
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {
    float* sum = scratch.all_diff_q + (first + i) * shape.columns;
    map_vectors(sum, scratch.diff_q + i * unit.stride, sum, shape.columns,
                [](V32 v, V32 old) HWY_ATTR { return hn::Add(v, old); });
  }
}

SNUG_BF16_ATTR void bf16_attention_grad_unit(const AttentionShape& shape,
                                             const Bf16AttentionData& data, int64_t sample,
                                             int64_t head, float* memory) {
  const Bf16GradScratch scratch(shape, grad_blocks(shape), memory);
  const AttentionBlocks& blocks = scratch.blocks;
  const int64_t width = shape.stride();
  Bf16GradUnit unit{.shape = shape,
                    .data = data,
                    .scratch = scratch,
                    .random = {},
                    .rule = {shape.threshold, shape.keep_scale},
                    .head = {shape, shape.head_offset(sample, head)},
                    .lse_base = (sample * shape.heads + head) * shape.tokens,
                    .stride = vectors_of(shape.columns) * lanes_f32(),
                    .next = next_head_offset(shape, sample, head)};
  if (shape.has_dropout) {
    unit.random = random_row_of_head(shape, data.rng, sample, head);
  }
  const uint8_t* mask = data.mask == nullptr ? nullptr : data.mask + sample * shape.tokens;
  const VisibleKeys visible = visible_keys(mask, shape.tokens);
  put_bf16_deltas(unit.head, data, scratch.delta);
  if (scratch.all_diff_q != nullptr) {
    std::fill_n(scratch.all_diff_q, shape.tokens * shape.columns, 0.0F);
  } else if (shape.window > 0 || visible.begin >= visible.end) {
    zero_bf16_rows(unit.head, data.diff_q, 0, shape.tokens);
  }
  for (int64_t key = visible.begin; key < visible.end; key += blocks.keys) {
    const int64_t keys = std::min(blocks.keys, visible.end - key);
    const int64_t begin = shape.window > 0 ? std::max<int64_t>(0, key - shape.window) : 0;
    const int64_t end =
        shape.window > 0 ? std::min(shape.tokens, key + keys + shape.window) : shape.tokens;
    const int64_t at = unit.head.at(key);
    fill_limits(mask == nullptr ? nullptr : mask + key, keys, scratch.limits);
    pack_pairs_transposed(data.k + at, width, keys, shape.columns, scratch.keys_transposed);
    pack_pairs_transposed(data.v + at, width, keys, shape.columns, scratch.values_transposed);
    pack_row_pairs(data.k + at, width, keys, shape.columns, scratch.keys);
    for (int64_t first = begin; first < end; first += blocks.queries) {
      bf16_grad_tile(unit, key, keys, first, std::min(blocks.queries, end - first), first == begin);
    }
    unit.next = -1;  // asked for once
    put_bf16_rows(unit.head, scratch.diff_k, unit.stride, shape.scale, key, keys, data.diff_k);
    put_bf16_rows(unit.head, scratch.diff_v, unit.stride, 1.0F, key, keys, data.diff_v);
  }
  for (uint16_t* dst : {data.diff_k, data.diff_v}) {
    zero_bf16_rows(unit.head, dst, 0, std::min(visible.begin, visible.end));
    zero_bf16_rows(unit.head, dst, visible.end, shape.tokens);
  }
  if (scratch.all_diff_q != nullptr) {
    put_bf16_rows(unit.head, scratch.all_diff_q, shape.columns, shape.scale, 0, shape.tokens,
                  data.diff_q);
  }
}
#endif

/// Null where the target has no such products.
Bf16AttentionGradUnit find_bf16_attention_grad_unit() {
#if SNUG_BF16_TARGET
  return bf16_attention_grad_unit;
#else
  return nullptr;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/kernel.h"
#include "base/threads.h"

namespace snug {

HWY_EXPORT(find_bf16_attention_grad_unit);

namespace {

int64_t bf16_grad_floats(const AttentionShape& shape) {
  return Bf16GradScratch(shape, grad_blocks(shape), nullptr).floats;
}

}  // namespace

int64_t bf16_attention_grad_bytes(const NodeSpec& spec, int64_t scratch_floats,
                                  const CpuContext& context) {
  const AttentionShape shape = attention_shape(spec);
  const int64_t parts = parallel_parts(context.threads, shape.samples * shape.heads, 1);
  return parts * scratch_floats * static_cast<int64_t>(sizeof(float));
}

std::unique_ptr<Kernel> make_bf16_attention_grad(const NodeSpec& spec, int64_t scratch_floats,
                                                 Bf16AttentionGradUnit unit_fn,
                                                 const CpuContext& context) {
  const AttentionShape shape = attention_shape(spec);
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    const Bf16AttentionData data{.q = input<uint16_t>(launch, 0),
                                 .k = input<uint16_t>(launch, 1),
                                 .v = input<uint16_t>(launch, 2),
                                 .o = input<uint16_t>(launch, 3),
                                 .lse = input<float>(launch, 4),
                                 .diff_o = input<uint16_t>(launch, 5),
                                 .mask = input<uint8_t>(launch, 6),
                                 .rng = input<int64_t>(launch, 7),
                                 .diff_q = output<uint16_t>(launch, 0),
                                 .diff_k = output<uint16_t>(launch, 1),
                                 .diff_v = output<uint16_t>(launch, 2)};
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

int64_t bf16_attention_grad_scratch(const NodeSpec& spec, const CpuContext& context) {
  return bf16_attention_grad_bytes(spec, bf16_grad_floats(attention_shape(spec)), context);
}

std::unique_ptr<Kernel> create_bf16_attention_grad(const NodeSpec& spec,
                                                   const CpuContext& context) {
  return make_bf16_attention_grad(spec, bf16_grad_floats(attention_shape(spec)),
                                  HWY_DYNAMIC_DISPATCH(find_bf16_attention_grad_unit)(), context);
}

}  // namespace snug
#endif  // HWY_ONCE
