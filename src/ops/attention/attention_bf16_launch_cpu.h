// SPDX-License-Identifier: Apache-2.0
// Attention whose products are the processor's own of bf16 (attention_bf16_cpu.cc and
// attention_grad_bf16_cpu.cc): operands of one launch, scratch of one thread. Probabilities and
// gradients by scores are rounded to bf16 before they are multiplied; scores, softmax and all sums
// are f32. Legend in attention_launch_cpu.h.
#pragma once

#include "ops/attention/attention_launch_cpu.h"

namespace snug {

/// Rows of (B, T, E) tensors start here; lse is (B, heads, T).
struct Bf16AttentionData {
  const uint16_t* q = nullptr;
  const uint16_t* k = nullptr;
  const uint16_t* v = nullptr;
  const uint16_t* o = nullptr;  // gradient only, as are lse and diff_o
  const float* lse = nullptr;
  const uint16_t* diff_o = nullptr;
  const uint8_t* mask = nullptr;  // null: every key is visible
  const int64_t* rng = nullptr;   // seed, update, first slot
  uint16_t* dst = nullptr;        // o, forward only
  float* dst_lse = nullptr;
  uint16_t* diff_q = nullptr;
  uint16_t* diff_k = nullptr;
  uint16_t* diff_v = nullptr;
};

/// A pair of bf16 takes the room of a float.
[[nodiscard]] inline int64_t column_pairs(const AttentionShape& shape) {
  return (shape.columns + 1) / 2;
}

/// The blocks of forward_blocks(), where the processor multiplies pairs on vectors.
[[nodiscard]] inline AttentionBlocks bf16_forward_blocks(const AttentionShape& shape) {
  AttentionBlocks blocks = forward_blocks(shape);
  blocks.packed_columns = 2 * column_pairs(shape);
  return blocks;
}

struct Bf16ForwardScratch {
  Bf16ForwardScratch(const AttentionBlocks& b, float* memory)
      : Bf16ForwardScratch(b, AttentionScratch(memory)) {}
  AttentionBlocks blocks;
  uint32_t* keys;     // K^T, packed
  uint32_t* values;   // V, packed
  uint16_t* queries;  // of one tile, in rows of whole pairs
  float* limits;      // +inf where a key is visible, else -inf
  float* scores;      // (tile, keys): S, then each row's probabilities in bf16 at its start
  float* sums;        // o before the division, (queries, D padded)
  float* largest;     // running maximum of each query's scores
  float* totals;      // running sum of exponentials
  int64_t floats;

 private:
  Bf16ForwardScratch(const AttentionBlocks& b, AttentionScratch part)
      : blocks(b),
        keys(reinterpret_cast<uint32_t*>(part.take(b.packed_columns / 2 * b.keys))),
        values(reinterpret_cast<uint32_t*>(part.take(b.keys / 2 * b.padded_columns))),
        queries(reinterpret_cast<uint16_t*>(
            part.take(std::min(b.tile, b.queries) * (b.packed_columns / 2)))),
        limits(part.take(b.keys)),
        scores(part.take_scores(b)),
        sums(part.take(b.queries * b.padded_columns)),
        largest(part.take(b.queries)),
        totals(part.take(b.queries)),
        floats(part.used_floats()) {}
};

/// Rows of scores and of gradients by scores alternate, so that what the products read is written
/// over them: of queries 2 r and 2 r + 1, in four rows,
///   S    pairs of P of both queries, a key a float   (dv)
///   dP   dS of the first, a row of bf16              (dq)
///   S    pairs of dS of both queries                 (dk)
///   dP   dS of the second
struct Bf16GradScratch {
  Bf16GradScratch(const AttentionShape& shape, const AttentionBlocks& b, float* memory)
      : Bf16GradScratch(shape, b, AttentionScratch(memory)) {}
  AttentionBlocks blocks;
  uint32_t* keys_transposed;    // K^T, packed
  uint32_t* values_transposed;  // V^T, packed
  uint32_t* keys;               // K, packed
  float* limits;
  uint32_t* queries;      // Q, packed
  uint32_t* diff_o;       // dO, packed
  uint16_t* query_rows;   // Q, in rows of whole pairs
  uint16_t* diff_o_rows;  // dO
  float* scores;          // 2 queries rows, those of dP between those of S
  float* diff_k;
  float* diff_v;
  float* diff_q;
  float* all_diff_q;  // (T, D): sums over blocks of keys; null where there is one
  float* delta;       // (T): rowsum(dO * O)
  int64_t floats;

 private:
  Bf16GradScratch(const AttentionShape& shape, const AttentionBlocks& b, AttentionScratch part)
      : blocks(b),
        keys_transposed(reinterpret_cast<uint32_t*>(part.take(column_pairs(shape) * b.keys))),
        values_transposed(reinterpret_cast<uint32_t*>(part.take(column_pairs(shape) * b.keys))),
        keys(reinterpret_cast<uint32_t*>(part.take(b.keys / 2 * b.padded_columns))),
        limits(part.take(b.keys)),
        queries(reinterpret_cast<uint32_t*>(part.take((b.queries + 1) / 2 * b.padded_columns))),
        diff_o(reinterpret_cast<uint32_t*>(part.take((b.queries + 1) / 2 * b.padded_columns))),
        query_rows(reinterpret_cast<uint16_t*>(part.take(b.queries * column_pairs(shape)))),
        diff_o_rows(reinterpret_cast<uint16_t*>(part.take(b.queries * column_pairs(shape)))),
        scores(part.take(2 * round_up(b.queries, 2) * b.score_stride)),
        diff_k(part.take(b.keys * b.padded_columns)),
        diff_v(part.take(b.keys * b.padded_columns)),
        diff_q(part.take(b.queries * b.padded_columns)),
        all_diff_q(shape.tokens > b.keys ? part.take(shape.tokens * shape.columns) : nullptr),
        delta(part.take(shape.tokens)),
        floats(part.used_floats()) {}
};

/// Queries [first, first + count) of one head of one sample; `next` is the offset of the head that
/// the thread works on next, or -1. `memory` is a Bf16ForwardScratch.
using Bf16AttentionUnit = void (*)(const AttentionShape& shape, const AttentionBlocks& blocks,
                                   const Bf16AttentionData& data, int64_t sample, int64_t head,
                                   int64_t first, int64_t count, int64_t next, float* memory);
/// One head of one sample.
using Bf16AttentionGradUnit = void (*)(const AttentionShape& shape, const Bf16AttentionData& data,
                                       int64_t sample, int64_t head, float* memory);

/// Answer for CpuKernelDef: whether such products are the processor's own.
[[nodiscard]] std::string needs_bf16_products(const NodeSpec& spec, const CpuContext& context);
/// In attention_bf16_cpu.cc: of any such unit, and of that on vectors.
[[nodiscard]] int64_t bf16_attention_bytes(const NodeSpec& spec, const AttentionBlocks& blocks,
                                           const CpuContext& context);
[[nodiscard]] std::unique_ptr<Kernel> make_bf16_attention(const NodeSpec& spec,
                                                          const AttentionBlocks& blocks,
                                                          Bf16AttentionUnit unit_fn,
                                                          const CpuContext& context);
[[nodiscard]] int64_t bf16_attention_scratch(const NodeSpec& spec, const CpuContext& context);
[[nodiscard]] std::unique_ptr<Kernel> create_bf16_attention(const NodeSpec& spec,
                                                            const CpuContext& context);
/// In attention_grad_bf16_cpu.cc: of any such unit, with so much scratch, and of that on vectors.
[[nodiscard]] int64_t bf16_attention_grad_bytes(const NodeSpec& spec, int64_t scratch_floats,
                                                const CpuContext& context);
[[nodiscard]] std::unique_ptr<Kernel> make_bf16_attention_grad(const NodeSpec& spec,
                                                               int64_t scratch_floats,
                                                               Bf16AttentionGradUnit unit_fn,
                                                               const CpuContext& context);
[[nodiscard]] int64_t bf16_attention_grad_scratch(const NodeSpec& spec, const CpuContext& context);
[[nodiscard]] std::unique_ptr<Kernel> create_bf16_attention_grad(const NodeSpec& spec,
                                                                 const CpuContext& context);

}  // namespace snug
