// SPDX-License-Identifier: Apache-2.0
// Attention whose products run on the processor's tiles (attention_tiles_cpu.cc and
// attention_grad_tiles_cpu.cc): how it is cut, and the scratch of one thread. What is rounded to
// bf16 is that of attention_bf16_launch_cpu.h. Legend in attention_launch_cpu.h.
#pragma once

#include "ops/attention/attention_bf16_launch_cpu.h"

namespace snug {

inline constexpr int64_t kTileSide = 16;     // rows of a tile, and sums in f32 a row
inline constexpr int64_t kTileDepth = 32;    // numbers in bf16 a row
inline constexpr int64_t kTileBytes = 1024;  // full
/// Every size of a product is a multiple of this: two tiles, or the depth of one.
inline constexpr int64_t kTilePad = 32;
/// Narrower heads would leave more than half of a tile empty.
inline constexpr int64_t kLeastTileColumns = 32;

[[nodiscard]] inline AttentionBlocks tile_forward_blocks(const AttentionShape& shape) {
  AttentionBlocks blocks = forward_blocks(shape);
  blocks.keys = round_up(blocks.keys, kTilePad);
  blocks.queries = round_up(blocks.queries, kTilePad);
  blocks.tile = kTilePad;
  blocks.score_rows = blocks.tile;
  blocks.score_stride = blocks.keys + kAttentionPad;
  blocks.padded_columns = round_up(shape.columns, kTilePad);
  blocks.packed_columns = blocks.padded_columns;
  return blocks;
}
[[nodiscard]] inline AttentionBlocks tile_grad_blocks(const AttentionShape& shape) {
  AttentionBlocks blocks = grad_blocks(shape);
  const int64_t most = shape.columns > 128 ? 64 : 128;
  blocks.keys = round_up(blocks.keys, kTilePad);
  blocks.queries = std::min(most, round_up(std::max<int64_t>(shape.tokens, 1), kTilePad));
  blocks.tile = kTilePad;  // keys whose scores are held at once
  blocks.score_rows = blocks.tile;
  blocks.score_stride = blocks.queries + kAttentionPad;
  blocks.padded_columns = round_up(shape.columns, kTilePad);
  blocks.packed_columns = blocks.padded_columns;
  return blocks;
}

/// Scores stand across: a row is a key, and a column a query. So what the products with dO and Q
/// read of P and dS are rows as they are computed, and only that of dq pairs of rows.
struct TileGradScratch {
  TileGradScratch(const AttentionShape& shape, const AttentionBlocks& b, float* memory)
      : TileGradScratch(shape, b, AttentionScratch(memory)) {}
  AttentionBlocks blocks;
  uint16_t* keys;                // K, in rows
  uint16_t* values;              // V, in rows
  uint32_t* keys_transposed;     // K^T, packed as the first operand
  uint32_t* queries_transposed;  // Q^T, packed, as the three that follow
  uint32_t* diff_o_transposed;   // dO^T
  uint32_t* queries;             // Q
  uint32_t* diff_o;              // dO
  float* limits;                 // +inf where a key is visible, else -inf
  float* scores;                 // (tile, queries): S^T, then each row of P^T in bf16 at its start
  float* diff_scores;            // dP^T, then dS^T in the same way
  uint32_t* pairs;               // dS^T, packed (keys, queries); PairColumns says in which order
  float* diff_k;
  float* diff_v;
  float* diff_q;    // (D padded, queries), or (D padded, T padded) where keys are in several blocks
  float* log_sums;  // of the block's queries, +inf behind the last
  float* delta;     // (T padded): rowsum(dO * O)
  int64_t diff_q_stride;
  int64_t floats;

 private:
  TileGradScratch(const AttentionShape& shape, const AttentionBlocks& b, AttentionScratch part)
      : blocks(b),
        keys(reinterpret_cast<uint16_t*>(part.take(b.keys * b.padded_columns / 2))),
        values(reinterpret_cast<uint16_t*>(part.take(b.keys * b.padded_columns / 2))),
        keys_transposed(reinterpret_cast<uint32_t*>(part.take(b.keys * b.padded_columns / 2))),
        queries_transposed(
            reinterpret_cast<uint32_t*>(part.take(b.queries * b.padded_columns / 2))),
        diff_o_transposed(reinterpret_cast<uint32_t*>(part.take(b.queries * b.padded_columns / 2))),
        queries(reinterpret_cast<uint32_t*>(part.take(b.queries * b.padded_columns / 2))),
        diff_o(reinterpret_cast<uint32_t*>(part.take(b.queries * b.padded_columns / 2))),
        limits(part.take(b.keys)),
        scores(part.take_scores(b)),
        diff_scores(part.take_scores(b)),
        pairs(reinterpret_cast<uint32_t*>(part.take(b.keys / 2 * b.queries))),
        diff_k(part.take(b.keys * b.padded_columns)),
        diff_v(part.take(b.keys * b.padded_columns)),
        diff_q(part.take(b.padded_columns * width_of_diff_q(shape, b))),
        log_sums(part.take(b.queries)),
        delta(part.take(round_up(shape.tokens, kTilePad))),
        diff_q_stride(width_of_diff_q(shape, b)),
        floats(part.used_floats()) {}
  // Not a power of two, so that the rows of a tile lie in different sets of the cache.
  static int64_t width_of_diff_q(const AttentionShape& shape, const AttentionBlocks& b) {
    const bool is_one_block = shape.tokens <= b.keys;
    return (is_one_block ? b.queries : round_up(shape.tokens, kTilePad)) + kAttentionPad;
  }
};

/// Answer for CpuKernelDef: whether such products run on tiles, for heads as wide as these.
[[nodiscard]] std::string needs_bf16_tiles(const NodeSpec& spec, const CpuContext& context);
/// In attention_tiles_cpu.cc.
[[nodiscard]] int64_t tile_attention_scratch(const NodeSpec& spec, const CpuContext& context);
[[nodiscard]] std::unique_ptr<Kernel> create_tile_attention(const NodeSpec& spec,
                                                            const CpuContext& context);
/// In attention_grad_tiles_cpu.cc.
[[nodiscard]] int64_t tile_attention_grad_scratch(const NodeSpec& spec, const CpuContext& context);
[[nodiscard]] std::unique_ptr<Kernel> create_tile_attention_grad(const NodeSpec& spec,
                                                                 const CpuContext& context);

}  // namespace snug
