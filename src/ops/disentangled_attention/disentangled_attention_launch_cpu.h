// SPDX-License-Identifier: Apache-2.0
// What the kernels of disentangled attention share: the operands of one launch, the sizes of blocks
// and scratch. Private to disentangled_attention*_cpu.cc. Legend in attention_launch_cpu.h; R is a
// number of rows of a table.
#pragma once

#include "ops/attention/attention_launch_cpu.h"
#include "ops/disentangled_attention/disentangled_attention.h"

namespace snug {

/// Everything but memory, fixed by the node.
struct RelativeShape {
  AttentionShape pairs;
  RelativeRows rows;
  int64_t table_rows = 0;
  bool has_pos_key = false;
  bool has_pos_query = false;
  DType dtype = DType::f32;
};
/// `tables` is the input pos_key; pos_query, mask and rng follow it.
[[nodiscard]] RelativeShape relative_shape(const NodeSpec& spec, size_t tables);

/// One head of the tables: row r starts r * stride floats from its first.
struct RelativeTables {
  const float* pos_key = nullptr;
  const float* pos_query = nullptr;
  int64_t stride = 0;
  const int32_t* row_of = nullptr;  // of every query - key, at either side of 0
  float* diff_pos_key = nullptr;    // gradient only: rows `diff_stride` apart
  float* diff_pos_query = nullptr;
  int64_t diff_stride = 0;
};

/// Keys whose products with a table are held together, and queries that meet them: products of near
/// blocks name rows that overlap, so the fewer blocks, the fewer products are formed twice.
[[nodiscard]] inline AttentionBlocks relative_grad_blocks(const AttentionShape& shape) {
  constexpr int64_t kTile = 48;
  const bool is_wide = shape.columns > 128;
  const int64_t tokens = round_up(std::max<int64_t>(shape.tokens, 1), kAttentionPad);
  const int64_t keys = std::min<int64_t>(is_wide ? 64 : 256, tokens);
  const int64_t queries = std::min(kTile, tokens);
  return {.keys = keys,
          .queries = queries,
          .tile = queries,
          .part = round_up(512, kTile),
          .score_rows = queries,
          .score_stride = keys + kAttentionPad,
          .score_margin = kAttentionPad,
          .padded_columns = round_up(shape.columns, kAttentionPad)};
}
[[nodiscard]] inline AttentionBlocks relative_forward_blocks(const AttentionShape& shape) {
  AttentionBlocks blocks = relative_grad_blocks(shape);
  blocks.queries = std::min(blocks.part, std::max<int64_t>(shape.tokens, 1));
  return blocks;
}

/// Products of one thread's blocks with rows of the tables, the rows as the first axis.
struct TableScratch {
  TableScratch(const RelativeShape& shape, const AttentionBlocks& blocks, AttentionScratch& part) {
    const int64_t columns = shape.pairs.columns;
    const int64_t key_rows = std::min(shape.table_rows, blocks.part + blocks.keys);
    const int64_t query_rows = std::min(shape.table_rows, blocks.tile + blocks.keys);
    key_stride = blocks.keys + kAttentionPad;
    query_stride = blocks.tile;
    most_rows = shape.has_pos_query ? key_rows : query_rows;
    key_floats = kAttentionPad + key_rows * key_stride;
    query_floats = query_rows * query_stride;
    if (shape.has_pos_query) key_products = part.take(key_floats);
    if (!shape.has_pos_key) return;
    queries = part.take(columns * blocks.tile);
    query_products = part.take(query_floats);
  }
  int64_t key_stride;
  int64_t query_stride;
  int64_t most_rows;
  int64_t key_floats;
  int64_t query_floats;
  float* queries = nullptr;         // Q^T times the scale, packed
  float* query_products = nullptr;  // (R, queries): pos_key Q^T
  float* key_products = nullptr;    // (R, keys) behind a margin: pos_query K^T
};

/// And their gradients.
struct TableGradScratch : TableScratch {
  TableGradScratch(const RelativeShape& shape, const AttentionBlocks& blocks,
                   AttentionScratch& part)
      : TableScratch(shape, blocks, part) {
    const int64_t sums = shape.table_rows * blocks.padded_columns;
    if (shape.has_pos_key || shape.has_pos_query)
      packed_rows = part.take(most_rows * blocks.padded_columns);
    if (shape.has_pos_query) {
      diff_key_products = part.take(key_floats);
      diff_pos_query = part.take(sums);
    }
    if (!shape.has_pos_key) return;
    diff_query_products = part.take(query_floats);
    diff_pos_key = part.take(sums);
  }
  float* packed_rows = nullptr;
  float* diff_query_products = nullptr;
  float* diff_key_products = nullptr;
  float* diff_pos_key = nullptr;  // (table rows, D padded): sums over samples
  float* diff_pos_query = nullptr;
};

/// One head of tables in f32, and copies of it where they are in 16 bits.
[[nodiscard]] RelativeTables relative_tables(const RelativeShape& shape, int64_t head,
                                             const float* pos_key, const float* pos_query,
                                             const int32_t* row_of);
[[nodiscard]] RelativeTables copied_tables(const RelativeShape& shape, int64_t head,
                                           const Launch& launch, size_t tables,
                                           const int32_t* row_of, HeadCopies& copies);

/// Scratch for the rows of all distances, which the threads of a launch share.
[[nodiscard]] int64_t relative_row_floats(const RelativeShape& shape);
/// Fills the start of a launch's scratch; returns the place of distance 0.
[[nodiscard]] const int32_t* put_relative_rows(const RelativeShape& shape, float* scratch);

/// In disentangled_attention_grad_cpu.cc.
[[nodiscard]] int64_t disentangled_grad_scratch(const NodeSpec& spec, const CpuContext& context);
[[nodiscard]] std::unique_ptr<Kernel> create_disentangled_grad(const NodeSpec& spec,
                                                               const CpuContext& context);

}  // namespace snug
