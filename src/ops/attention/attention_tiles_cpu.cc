// SPDX-License-Identifier: Apache-2.0
// CPU kernel of attention in bf16 on tiles; where the processor has none, or heads are narrow,
// attention_bf16_cpu.cc has it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/attention_tiles_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/amx.h"
#include "ops/attention/attention_bf16_unit-inl.h"
#include "ops/attention/attention_tiles-inl.h"
#include "ops/attention/attention_tiles_launch_cpu.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

#if SNUG_BF16_TARGET

struct TileProducts {
  static constexpr int64_t kKeyPad = kTilePad;
  const AttentionShape& shape;
  const Bf16ForwardScratch& scratch;

  HWY_INLINE void pack_keys(const uint16_t* k, const uint16_t* v, int64_t stride,
                            int64_t keys) const {
    const int64_t columns = scratch.blocks.padded_columns;
    const int64_t padded = round_up(keys, kTilePad);
    pack_transposed_tiles({k, stride, keys, shape.columns}, columns, padded, scratch.keys);
    pack_tiles({v, stride, keys, shape.columns}, padded, columns, scratch.values);
  }
  HWY_INLINE void put_scores(const uint16_t* q, int64_t stride, int64_t rows, int64_t keys) const {
    const int64_t columns = scratch.blocks.padded_columns;
    put_rows({q, stride, rows, shape.columns}, kTilePad, columns, scratch.queries);
    multiply_tiles(kTilePad, round_up(keys, kTilePad), columns,
                   rows_of_tiles(scratch.queries, 2 * columns), packed_tiles(scratch.keys, columns),
                   scratch.scores, scratch.blocks.score_stride, false);
  }
  // Rows behind the last are of queries that are not there: their scores are 0, and no part of a
  // result.
  HWY_INLINE void add_values(int64_t /*rows*/, int64_t keys, float* sums, bool accumulates) const {
    const int64_t padded = round_up(keys, kTilePad);
    multiply_tiles(kTilePad, scratch.blocks.padded_columns, padded,
                   rows_of_tiles(scratch.scores, 4 * scratch.blocks.score_stride),
                   packed_tiles(scratch.values, padded), sums, scratch.blocks.padded_columns,
                   accumulates);
  }
};

SNUG_BF16_ATTR void tile_attention_unit(const AttentionShape& shape, const AttentionBlocks& blocks,
                                        const Bf16AttentionData& data, int64_t sample, int64_t head,
                                        int64_t first, int64_t count, int64_t next, float* memory) {
  const TileConfig tiles;
  run_bf16_attention_unit<TileProducts>(shape, Bf16ForwardScratch(blocks, memory), data, sample,
                                        head, first, count, next);
}
#endif

/// Null where the target has no tiles.
Bf16AttentionUnit find_tile_attention_unit() {
#if SNUG_BF16_TARGET
  return tile_attention_unit;
#else
  return nullptr;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace snug {

HWY_EXPORT(find_tile_attention_unit);

std::string needs_bf16_tiles(const NodeSpec& spec, const CpuContext& /*context*/) {
  if (!has_amx() || HWY_DYNAMIC_DISPATCH(find_tile_attention_unit)() == nullptr)
    return "no tiles for bf16 here";
  if (attention_shape(spec).columns < kLeastTileColumns) return "heads are too narrow for tiles";
  return "";
}

int64_t tile_attention_scratch(const NodeSpec& spec, const CpuContext& context) {
  return bf16_attention_bytes(spec, tile_forward_blocks(attention_shape(spec)), context);
}

std::unique_ptr<Kernel> create_tile_attention(const NodeSpec& spec, const CpuContext& context) {
  return make_bf16_attention(spec, tile_forward_blocks(attention_shape(spec)),
                             HWY_DYNAMIC_DISPATCH(find_tile_attention_unit)(), context);
}

}  // namespace snug
#endif  // HWY_ONCE
