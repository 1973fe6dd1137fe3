// SPDX-License-Identifier: Apache-2.0
// CPU kernel of attention_grad in bf16 on tiles; where the processor has none, or heads are narrow,
// attention_grad_bf16_cpu.cc has it. A unit of work is one head of one sample, computed by one
// thread; scores stand across (TileGradScratch).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/attention_grad_tiles_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/amx.h"
#include "backend/cpu/math-inl.h"
#include "backend/cpu/philox-inl.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_bf16_grad_rows-inl.h"
#include "ops/attention/attention_tiles-inl.h"
#include "ops/attention/attention_tiles_launch_cpu.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

#if SNUG_BF16_TARGET

// What one unit works on.
struct TileGradUnit {
  const AttentionShape& shape;
  const Bf16AttentionData& data;
  const TileGradScratch& scratch;
  PhiloxRow random;
  DropoutRule rule;
  Bf16HeadRows head;
  const float* log_sums;  // of the head
  int64_t next;           // offset of the next head, or -1
};

// A block of keys that meets a block of queries.
struct TileBlock {
  int64_t key;
  int64_t padded_keys;
  int64_t query;
  int64_t padded_queries;
  bool is_first;  // of those that meet these keys
};

// A key's scores hide the latency of rows of memory: those of its results, and those of the next
// head at the place of a query.
HWY_INLINE void prefetch_rows(const TileGradUnit& unit, const TileBlock& block, int64_t key) {
  const int64_t tokens = unit.shape.tokens;
  if (block.is_first && key < tokens) prefetch_bf16_results(unit.head, unit.data, key);
  const int64_t query = block.query + key - block.key;
  if (unit.next >= 0 && query < tokens) prefetch_bf16_grad(unit.shape, unit.data, unit.next, query);
}

// What dropout multiplies four keys of 32 queries by.
struct KeptFactors {
  V32 of_key[4][2];  // queries [0, 16) and [16, 32)
};
HWY_INLINE KeptFactors kept_factors(const PhiloxRow& row, DropoutRule rule, int64_t query,
                                    int64_t key) {
  const F32 d;
  const U32 du;
  const U64 wide;
  const hn::Vec<U64> steps =
      hn::Mul(hn::Iota(wide, 0), hn::Set(wide, static_cast<uint64_t>(attention_quad(2, 0))));
  const hn::Vec<U32> threshold = hn::Set(du, rule.threshold);
  const V32 scale = hn::Set(d, rule.scale);
  KeptFactors result;
  HWY_UNROLL(2)
  for (int64_t half = 0; half < 2; ++half) {
    const auto words_of = [&](int64_t first) HWY_ATTR {
      const auto counter = static_cast<uint64_t>(attention_quad(query + 16 * half + first, key));
      return philox_counters(row, hn::Add(hn::Set(wide, counter), steps));
    };
    // Eight queries each, which become the even and the odd lanes.
    const PhiloxLanes even = words_of(0);
    const PhiloxLanes odd = words_of(1);
    const auto factor = [&](hn::Vec<U64> a, hn::Vec<U64> b) HWY_ATTR {
      const hn::Vec<U32> words =
          hn::OddEven(hn::BitCast(du, hn::ShiftLeft<32>(b)), hn::BitCast(du, a));
      return hn::IfThenZeroElse(hn::RebindMask(d, hn::Lt(words, threshold)), scale);
    };
    result.of_key[0][half] = factor(even.word0, odd.word0);
    result.of_key[1][half] = factor(even.word1, odd.word1);
    result.of_key[2][half] = factor(even.word2, odd.word2);
    result.of_key[3][half] = factor(even.word3, odd.word3);
  }
  return result;
}

// What 32 queries, one a lane, bring to each of their keys.
struct QueryLanes {
  V32 log_sums[2];
  V32 delta[2];
};

// A row of 32 queries: S^T and dP^T become dropout(P), P = exp(S - lse), and
// dS = P * (dropout'(dP) - delta), both in bf16. Returns the latter.
SNUG_BF16_ATTR HWY_INLINE Pairs grad_row_of_queries(float* scores, float* diff_scores, int64_t q,
                                                    const QueryLanes& lanes, V32 scale, V32 limit,
                                                    const V32* factors) {
  const F32 d;
  V32 p[2];
  V32 ds[2];
  HWY_UNROLL(2)
  for (int64_t half = 0; half < 2; ++half) {
    const int64_t at = q + 16 * half;
    const V32 s = hn::MulSub(hn::LoadU(d, scores + at), scale, lanes.log_sums[half]);
    const V32 plain = exp_flushed(hn::Min(s, limit));
    const V32 slope = hn::MulSub(hn::LoadU(d, diff_scores + at), factors[half], lanes.delta[half]);
    p[half] = hn::Mul(plain, factors[half]);
    ds[half] = hn::Mul(plain, slope);
  }
  const Pairs narrow = round_both(ds[0], ds[1]);
  hn::StoreU(round_both(p[0], p[1]), U32(), reinterpret_cast<uint32_t*>(scores) + q / 2);
  hn::StoreU(narrow, U32(), reinterpret_cast<uint32_t*>(diff_scores) + q / 2);
  return narrow;
}

// dS^T of two keys and 32 queries as pairs of keys: PairColumns, even queries, then odd ones, so
// that no number changes its lane.
HWY_INLINE void put_pair_columns(Pairs first, Pairs second, uint32_t* even, uint32_t* odd) {
  const Pairs low = hn::Set(U32(), 0xFFFFU);
  hn::StoreU(hn::Or(hn::And(first, low), hn::ShiftLeft<16>(second)), U32(), even);
  hn::StoreU(hn::Or(hn::ShiftRight<16>(first), hn::AndNot(low, second)), U32(), odd);
}

// Keys [key, key + 32) of the block, whose limits are given, and all its queries.
template <bool kHasDropout>
SNUG_BF16_ATTR HWY_NOINLINE void grad_rows_of_keys(const TileGradUnit& unit, const TileBlock& block,
                                                   int64_t key, const float* limits,
                                                   uint32_t* pairs) {
  const F32 d;
  const TileGradScratch& scratch = unit.scratch;
  const int64_t stride = scratch.blocks.score_stride;
  const V32 scale = hn::Set(d, unit.shape.scale);
  for (int64_t k = 0; k < kTilePad; k += 4) {
    for (int64_t i = k; i < k + 4; ++i) prefetch_rows(unit, block, key + i);
    for (int64_t q = 0; q < block.padded_queries; q += kTilePad) {
      const float* log_sums = scratch.log_sums + q;
      const float* delta = scratch.delta + block.query + q;
      const QueryLanes lanes{{hn::LoadU(d, log_sums), hn::LoadU(d, log_sums + 16)},
                             {hn::LoadU(d, delta), hn::LoadU(d, delta + 16)}};
      KeptFactors factors;
      if constexpr (kHasDropout) {
        factors = kept_factors(unit.random, unit.rule, block.query + q, key + k);
      } else {
        for (V32(&of_key)[2] : factors.of_key) of_key[0] = of_key[1] = hn::Set(d, 1.0F);
      }
      uint32_t* even = pairs + q / kTileSide * (kTileBytes / 4) + k / 2 * kTileSide;
      HWY_UNROLL(4)
      for (int64_t i = 0; i < 4; i += 2) {
        const auto row = [&](int64_t j) SNUG_BF16_ATTR {
          const int64_t at = (k + j) * stride;
          return grad_row_of_queries(scratch.scores + at, scratch.diff_scores + at, q, lanes, scale,
                                     hn::Set(d, limits[k + j]), factors.of_key[j]);
        };
        const Pairs first = row(i);
        const Pairs second = row(i + 1);
        uint32_t* at = even + i / 2 * kTileSide;
        put_pair_columns(first, second, at, at + kTileBytes / 4);
      }
    }
  }
}

// Queries [block.query, + rows): packed, with what else belongs to them.
HWY_INLINE void pack_queries(const TileGradUnit& unit, const TileBlock& block, int64_t rows) {
  const AttentionShape& shape = unit.shape;
  const TileGradScratch& scratch = unit.scratch;
  const int64_t columns = scratch.blocks.padded_columns;
  const int64_t at = unit.head.at(block.query);
  const Bf16Rows q{unit.data.q + at, shape.stride(), rows, shape.columns};
  const Bf16Rows diff_o{unit.data.diff_o + at, shape.stride(), rows, shape.columns};
  pack_transposed_tiles(q, columns, block.padded_queries, scratch.queries_transposed);
  pack_transposed_tiles(diff_o, columns, block.padded_queries, scratch.diff_o_transposed);
  pack_tiles(q, block.padded_queries, columns, scratch.queries);
  pack_tiles(diff_o, block.padded_queries, columns, scratch.diff_o);
  std::copy_n(unit.log_sums + block.query, rows, scratch.log_sums);
  // Queries that are not there see nothing.
  std::fill(scratch.log_sums + rows, scratch.log_sums + block.padded_queries,
            std::numeric_limits<float>::infinity());
}

// `rows` rows of dq, which stands across with columns in the order of PairColumns.
SNUG_BF16_ATTR HWY_NOINLINE void put_diff_q(const TileGradUnit& unit, const float* src,
                                            int64_t first, int64_t rows) {
  const int64_t stride = unit.scratch.diff_q_stride;
  const V32 scale = constant(unit.shape.scale);
  for (int64_t q = 0; q < round_up(rows, kTilePad); q += kTileSide) {
    const int64_t odd = q / kTileSide % 2;
    for (int64_t column = 0; column < unit.shape.columns; column += kTileSide) {
      const float* across[kTileSide];
      for (int64_t i = 0; i < kTileSide; ++i) across[i] = src + (column + i) * stride + q;
      transpose_rows(across, kTileSide, [&](V32 v, int64_t i) SNUG_BF16_ATTR {
        const int64_t row = q / kTilePad * kTilePad + 2 * i + odd;
        if (row >= rows) return;
        HWY_ALIGN float numbers[kTileSide];
        hn::Store(v, F32(), numbers);
        put_bf16_row(numbers, scale, std::min(kTileSide, unit.shape.columns - column),
                     unit.data.diff_q + unit.head.at(first + row) + column);
      });
    }
  }
}

// Queries [first, first + rows) against the packed keys [key, key + keys). `is_first`: they are the
// first that meet these keys.
SNUG_BF16_ATTR HWY_NOINLINE void tile_grad_block(const TileGradUnit& unit, int64_t key,
                                                 int64_t keys, int64_t first, int64_t rows,
                                                 bool is_first) {
  const AttentionShape& shape = unit.shape;
  const TileGradScratch& scratch = unit.scratch;
  const int64_t columns = scratch.blocks.padded_columns;
  const int64_t stride = scratch.blocks.score_stride;
  const TileBlock block{key, round_up(keys, kTilePad), first, round_up(rows, kTilePad), is_first};
  const bool is_one_block = shape.tokens <= scratch.blocks.keys;
  pack_queries(unit, block, rows);
  for (int64_t k = 0; k < block.padded_keys; k += kTilePad) {
    multiply_tiles(kTilePad, block.padded_queries, columns,
                   rows_of_tiles(scratch.keys + k * columns, 2 * columns),
                   packed_tiles(scratch.queries_transposed, columns), scratch.scores, stride,
                   false);
    multiply_tiles(kTilePad, block.padded_queries, columns,
                   rows_of_tiles(scratch.values + k * columns, 2 * columns),
                   packed_tiles(scratch.diff_o_transposed, columns), scratch.diff_scores, stride,
                   false);
    for (int64_t i = 0; i < kTilePad; ++i) {
      // A window reaches as far from a key to its queries as from a query to its keys.
      hide_outside(shape, key + k + i, first, block.padded_queries, scratch.scores + i * stride);
    }
    uint32_t* pairs = scratch.pairs + k / 2 * block.padded_queries;
    if (shape.has_dropout) {
      grad_rows_of_keys<true>(unit, block, key + k, scratch.limits + k, pairs);
    } else {
      grad_rows_of_keys<false>(unit, block, key + k, scratch.limits + k, pairs);
    }
    const int64_t row_bytes = 4 * stride;
    multiply_tiles(kTilePad, columns, block.padded_queries,
                   rows_of_tiles(scratch.scores, row_bytes),
                   packed_tiles(scratch.diff_o, block.padded_queries), scratch.diff_v + k * columns,
                   columns, !is_first);
    multiply_tiles(kTilePad, columns, block.padded_queries,
                   rows_of_tiles(scratch.diff_scores, row_bytes),
                   packed_tiles(scratch.queries, block.padded_queries),
                   scratch.diff_k + k * columns, columns, !is_first);
  }
  float* diff_q = scratch.diff_q + (is_one_block ? 0 : first);
  const TileOperand pairs{scratch.pairs, kTileBytes, block.padded_queries / kTileSide * kTileBytes,
                          kTileBytes / kTileSide};
  multiply_tiles(columns, block.padded_queries, block.padded_keys,
                 packed_tiles(scratch.keys_transposed, block.padded_keys), pairs, diff_q,
                 scratch.diff_q_stride, !is_one_block);
  if (is_one_block) put_diff_q(unit, diff_q, first, rows);
}

SNUG_BF16_ATTR void tile_attention_grad_unit(const AttentionShape& shape,
                                             const Bf16AttentionData& data, int64_t sample,
                                             int64_t head, float* memory) {
  const TileConfig tiles;
  const TileGradScratch scratch(shape, tile_grad_blocks(shape), memory);
  const AttentionBlocks& blocks = scratch.blocks;
  const int64_t columns = blocks.padded_columns;
  TileGradUnit unit{.shape = shape,
                    .data = data,
                    .scratch = scratch,
                    .random = {},
                    .rule = {shape.threshold, shape.keep_scale},
                    .head = {shape, shape.head_offset(sample, head)},
                    .log_sums = data.lse + (sample * shape.heads + head) * shape.tokens,
                    .next = next_head_offset(shape, sample, head)};
  if (shape.has_dropout) {
    unit.random = random_row_of_head(shape, data.rng, sample, head);
  }
  const uint8_t* mask = data.mask == nullptr ? nullptr : data.mask + sample * shape.tokens;
  const VisibleKeys visible = visible_keys(mask, shape.tokens);
  const bool is_one_block = shape.tokens <= blocks.keys;
  put_bf16_deltas(unit.head, data, scratch.delta);
  std::fill(scratch.delta + shape.tokens, scratch.delta + round_up(shape.tokens, kTilePad), 0.0F);
  if (!is_one_block) {
    std::fill_n(scratch.diff_q, columns * scratch.diff_q_stride, 0.0F);
  } else if (shape.window > 0 || visible.begin >= visible.end) {
    zero_bf16_rows(unit.head, data.diff_q, 0, shape.tokens);
  }
  for (int64_t key = visible.begin; key < visible.end; key += blocks.keys) {
    const int64_t keys = std::min(blocks.keys, visible.end - key);
    const int64_t padded = round_up(keys, kTilePad);
    const int64_t begin =
        shape.window > 0 ? std::max<int64_t>(0, key - shape.window) / kTilePad * kTilePad : 0;
    const int64_t end =
        shape.window > 0 ? std::min(shape.tokens, key + keys + shape.window) : shape.tokens;
    const Bf16Rows k{data.k + unit.head.at(key), shape.stride(), keys, shape.columns};
    const Bf16Rows v{data.v + unit.head.at(key), shape.stride(), keys, shape.columns};
    fill_limits(mask == nullptr ? nullptr : mask + key, keys, padded, scratch.limits);
    put_rows(k, padded, columns, scratch.keys);
    put_rows(v, padded, columns, scratch.values);
    pack_transposed_rows(k, columns, padded, scratch.keys_transposed);
    for (int64_t first = begin; first < end; first += blocks.queries)
      tile_grad_block(unit, key, keys, first, std::min(blocks.queries, end - first),
                      first == begin);
    unit.next = -1;  // asked for once
    put_bf16_rows(unit.head, scratch.diff_k, columns, shape.scale, key, keys, data.diff_k);
    put_bf16_rows(unit.head, scratch.diff_v, columns, 1.0F, key, keys, data.diff_v);
  }
  for (uint16_t* dst : {data.diff_k, data.diff_v}) {
    zero_bf16_rows(unit.head, dst, 0, std::min(visible.begin, visible.end));
    zero_bf16_rows(unit.head, dst, visible.end, shape.tokens);
  }
  if (!is_one_block) put_diff_q(unit, scratch.diff_q, 0, shape.tokens);
}
#endif

/// Null where the target has no tiles.
Bf16AttentionGradUnit find_tile_attention_grad_unit() {
#if SNUG_BF16_TARGET
  return tile_attention_grad_unit;
#else
  return nullptr;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace snug {

HWY_EXPORT(find_tile_attention_grad_unit);

namespace {

int64_t tile_grad_floats(const AttentionShape& shape) {
  return TileGradScratch(shape, tile_grad_blocks(shape), nullptr).floats;
}

}  // namespace

int64_t tile_attention_grad_scratch(const NodeSpec& spec, const CpuContext& context) {
  return bf16_attention_grad_bytes(spec, tile_grad_floats(attention_shape(spec)), context);
}

std::unique_ptr<Kernel> create_tile_attention_grad(const NodeSpec& spec,
                                                   const CpuContext& context) {
  return make_bf16_attention_grad(spec, tile_grad_floats(attention_shape(spec)),
                                  HWY_DYNAMIC_DISPATCH(find_tile_attention_grad_unit)(), context);
}

}  // namespace snug
#endif  // HWY_ONCE
