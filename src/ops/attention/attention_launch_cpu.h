// SPDX-License-Identifier: Apache-2.0
// What the attention kernels share: the operands of one launch and the sizes of blocks and scratch.
// Private to attention*_cpu.cc. Legend: B samples, T tokens, heads, D columns of a head, E = heads
// * D.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/half_rows.h"
#include "base/units.h"
#include "snug/error.h"

namespace snug {

/// Everything but memory, fixed by the node.
struct AttentionShape {
  int64_t samples = 0;
  int64_t tokens = 0;
  int64_t heads = 1;
  int64_t columns = 0;
  float scale = 1;  // 1 / sqrt(D)
  bool has_dropout = false;
  uint32_t threshold = 0;  // words below it are dropped
  float keep_scale = 1;    // 1 / (1 - rate)
  uint32_t ordinal = 0;
  int64_t window = 0;  // tokens to either side that a query sees; 0: all
  /// Operands and results of one head only, dense: copies of rows in 16 bits.
  bool is_one_head = false;
  /// The mask hides queries too: they see nothing and nothing flows from them.
  bool hides_queries = false;

  [[nodiscard]] int64_t width() const { return heads * columns; }
  /// From one token's row of a head to the next.
  [[nodiscard]] int64_t stride() const { return is_one_head ? columns : width(); }
  /// Where a head's first element stands.
  [[nodiscard]] int64_t head_offset(int64_t sample, int64_t head) const {
    return is_one_head ? 0 : sample * tokens * width() + head * columns;
  }
};
[[nodiscard]] AttentionShape attention_shape(const NodeSpec& spec);

/// Rows and scores of (B, T, E) tensors start here; lse is (B, heads, T).
struct AttentionData {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  const float* o = nullptr;  // gradient only, as are lse and diff_o
  const float* lse = nullptr;
  const float* diff_o = nullptr;
  const uint8_t* mask = nullptr;  // null: every key is visible
  const int64_t* rng = nullptr;   // seed, update, first slot
  float* dst = nullptr;           // o, forward only
  float* dst_lse = nullptr;
  float* diff_q = nullptr;
  float* diff_k = nullptr;
  float* diff_v = nullptr;
};

/// Offset of the next head in memory order, or -1 after the last.
[[nodiscard]] inline int64_t next_head_offset(const AttentionShape& shape, int64_t sample,
                                              int64_t head) {
  if (shape.is_one_head) return -1;
  if (head + 1 < shape.heads)
    return sample * shape.tokens * shape.width() + (head + 1) * shape.columns;
  return sample + 1 < shape.samples ? (sample + 1) * shape.tokens * shape.width() : -1;
}

/// Columns of packed operands are padded to the longest vector.
inline constexpr int64_t kAttentionPad = 16;
/// Blocks of keys start at multiples of this, so that a row of random words starts at a whole
/// counter.
inline constexpr int64_t kAttentionKeyStep = 64;

/// How one unit of work is cut, and where its parts lie in the scratch of one thread (in floats).
/// Sizes depend on the shape only. All packed operands together stay within the second-level
/// cache.
struct AttentionBlocks {
  int64_t keys = 0;     // in a block
  int64_t queries = 0;  // of one unit (forward) or in a block (gradient)
  int64_t tile = 0;     // queries whose scores are held at once
  int64_t part = 0;     // queries that meet a block of keys together (gradient): whole blocks
  int64_t score_rows = 0;
  int64_t score_stride = 0;
  int64_t score_margin = 0;  // floats before the first row
  int64_t padded_columns = 0;
  int64_t packed_columns = 0;  // of operands in bf16 that are summed over D
};

inline constexpr int64_t kAttentionTile = 24;

/// Keys of a block: all blocks that a window touches are computed whole, so they are about as long.
[[nodiscard]] inline int64_t keys_of_block(const AttentionShape& shape, int64_t most) {
  if (shape.window > 0) most = std::min(most, round_up(shape.window, kAttentionKeyStep));
  return std::min(most, round_up(std::max<int64_t>(shape.tokens, 1), kAttentionPad));
}
[[nodiscard]] inline AttentionBlocks forward_blocks(const AttentionShape& shape) {
  const bool is_wide = shape.columns > 128;
  const int64_t keys = keys_of_block(shape, is_wide ? 128 : 256);
  return {.keys = keys,
          .queries = std::min<int64_t>(is_wide ? 128 : 256, shape.tokens),
          .tile = kAttentionTile,
          .score_rows = kAttentionTile,
          .score_stride = keys + kAttentionPad,
          .padded_columns = round_up(shape.columns, kAttentionPad)};
}
[[nodiscard]] inline AttentionBlocks grad_blocks(const AttentionShape& shape) {
  const bool is_wide = shape.columns > 128;
  const int64_t keys = keys_of_block(shape, is_wide ? 64 : 128);
  const int64_t queries = std::min<int64_t>(64, shape.tokens);
  return {.keys = keys,
          .queries = queries,
          .tile = queries,
          .part = std::max<int64_t>(shape.tokens, 1),
          .score_rows = queries,
          .score_stride = keys + kAttentionPad,
          .padded_columns = round_up(shape.columns, kAttentionPad)};
}

/// Units of work of the forward kernels: blocks of queries of every head.
[[nodiscard]] inline int64_t query_blocks(const AttentionShape& shape) {
  if (shape.tokens == 0) return 0;
  const int64_t queries = forward_blocks(shape).queries;
  return (shape.tokens + queries - 1) / queries;
}

/// Hands out parts of one thread's scratch, each at a multiple of a cache line; with null memory it
/// only counts.
class AttentionScratch {
 public:
  explicit AttentionScratch(float* memory) : memory_(memory) {}
  [[nodiscard]] float* take(int64_t floats) {
    float* part = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += round_up(floats, kAttentionPad);
    return part;
  }
  /// With room before it.
  [[nodiscard]] float* take_scores(const AttentionBlocks& blocks) {
    float* part = take(blocks.score_margin + blocks.score_rows * blocks.score_stride);
    return part == nullptr ? nullptr : part + blocks.score_margin;
  }
  [[nodiscard]] int64_t used_floats() const { return used_; }

 private:
  float* memory_;
  int64_t used_ = 0;
};

struct ForwardScratch {
  ForwardScratch(const AttentionShape& shape, const AttentionBlocks& b, float* memory)
      : ForwardScratch(shape, b, AttentionScratch(memory)) {}
  AttentionBlocks blocks;
  float* keys;     // K^T / sqrt(D), packed
  float* values;   // V, packed
  float* limits;   // +inf where a key is visible, else -inf
  float* scores;   // (tile, keys)
  float* sums;     // o before the division, (queries, D padded)
  float* largest;  // running maximum of each query's scores
  float* totals;   // running sum of exponentials
  int64_t floats;

 private:
  ForwardScratch(const AttentionShape& shape, const AttentionBlocks& b, AttentionScratch part)
      : blocks(b),
        keys(part.take(shape.columns * b.keys)),
        values(part.take(b.keys * b.padded_columns)),
        limits(part.take(b.keys)),
        scores(part.take_scores(b)),
        sums(part.take(b.queries * b.padded_columns)),
        largest(part.take(b.queries)),
        totals(part.take(b.queries)),
        floats(part.used_floats()) {}
};

struct GradScratch {
  GradScratch(const AttentionShape& shape, const AttentionBlocks& b, float* memory)
      : GradScratch(shape, b, AttentionScratch(memory)) {}
  AttentionBlocks blocks;
  float* keys_transposed;    // K^T / sqrt(D), packed
  float* values_transposed;  // V^T, packed
  float* keys;               // K / sqrt(D), packed
  float* limits;
  float* factors;  // of dropout, one row
  float* ones;
  float* queries;      // Q, packed
  float* diff_o;       // dO, packed
  float* scores;       // (queries, keys): S, then dropout(P)
  float* diff_scores;  // (queries, keys): dP, then dS
  float* diff_k;
  float* diff_v;
  float* diff_q;
  float* delta;  // (T): rowsum(dO * O)
  int64_t floats;

 private:
  GradScratch(const AttentionShape& shape, const AttentionBlocks& b, AttentionScratch part)
      : blocks(b),
        keys_transposed(part.take(shape.columns * b.keys)),
        values_transposed(part.take(shape.columns * b.keys)),
        keys(part.take(b.keys * b.padded_columns)),
        limits(part.take(b.keys)),
        factors(part.take(b.keys)),
        ones(part.take(b.keys)),
        queries(part.take(b.queries * b.padded_columns)),
        diff_o(part.take(b.queries * b.padded_columns)),
        scores(part.take_scores(b)),
        diff_scores(part.take_scores(b)),
        diff_k(part.take(b.keys * b.padded_columns)),
        diff_v(part.take(b.keys * b.padded_columns)),
        diff_q(part.take(b.queries * b.padded_columns)),
        delta(part.take(shape.tokens)),
        floats(part.used_floats()) {}
};

/// The keys [begin, end) that hold every visible key of a sample; begin is a multiple of
/// kAttentionKeyStep. Empty where none is visible. What lies outside costs nothing and changes no
/// bit.
struct VisibleKeys {
  int64_t begin = 0;
  int64_t end = 0;
};
[[nodiscard]] inline VisibleKeys visible_keys(const uint8_t* mask, int64_t tokens) {
  if (mask == nullptr) return {0, tokens};
  int64_t end = tokens;
  while (end > 0 && mask[end - 1] == 0) --end;
  int64_t begin = 0;
  while (begin < end && mask[begin] == 0) ++begin;
  return {begin / kAttentionKeyStep * kAttentionKeyStep, end};
}

/// Those of the visible keys that a window lets any of the queries [first, end) see.
[[nodiscard]] inline VisibleKeys keys_in_window(const AttentionShape& shape, VisibleKeys visible,
                                                int64_t first, int64_t end) {
  if (shape.window == 0) return visible;
  const int64_t begin = std::max<int64_t>(first - shape.window, 0);
  return {std::max(visible.begin, begin / kAttentionKeyStep * kAttentionKeyStep),
          std::min(visible.end, end + shape.window)};
}
/// Whether a window hides all keys [key, key + keys) from all queries [first, first + rows).
[[nodiscard]] inline bool is_outside(const AttentionShape& shape, int64_t key, int64_t keys,
                                     int64_t first, int64_t rows) {
  return shape.window > 0 &&
         (key > first + rows - 1 + shape.window || key + keys - 1 < first - shape.window);
}
/// Hides scores of keys [key, key + keys) that are further from the query than the window.
inline void hide_outside(const AttentionShape& shape, int64_t query, int64_t key, int64_t keys,
                         float* scores) {
  if (shape.window == 0) return;
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  const int64_t begin = std::clamp<int64_t>(query - shape.window - key, 0, keys);
  const int64_t end = std::clamp<int64_t>(query + shape.window + 1 - key, begin, keys);
  std::fill_n(scores, begin, kHidden);
  std::fill_n(scores + end, keys - end, kHidden);
}

/// Which of `count` queries from `first` on may be visible, relative to `first`.
struct QueryRange {
  int64_t begin = 0;
  int64_t end = 0;
};
[[nodiscard]] inline QueryRange queries_in(const VisibleKeys& visible, int64_t first,
                                           int64_t count) {
  const int64_t begin = std::clamp<int64_t>(visible.begin - first, 0, count);
  return {begin, std::clamp(visible.end - first, begin, count)};
}

/// Attention alone: nothing beside the products of queries and keys.
struct NoExtraScores {
  /// Before the tiles of queries [first, end): keys [key, key + keys) are packed and scaled, K^T.
  void start_keys(const float* /*packed_keys*/, int64_t /*key*/, int64_t /*keys*/,
                  int64_t /*first*/, int64_t /*end*/) {}
  /// Writes what is added to the scores of `rows` queries; false where that is nothing.
  bool put_scores(const float* /*q*/, int64_t /*stride*/, int64_t /*query*/, int64_t /*rows*/,
                  float* /*scores*/) {
    return false;
  }
  /// dS of the same queries, their packed rows, and dq so far.
  void add_gradients(float* /*diff_scores*/, int64_t /*query*/, int64_t /*rows*/,
                     const float* /*packed_queries*/, float* /*diff_q*/) {}
  /// After the tiles: the packed and scaled rows of the keys, and dk so far, to be scaled.
  void finish_keys(const float* /*packed_keys*/, float* /*diff_k*/) {}
};

/// Copies in f32 of one head of tensors in 16 bits, for one unit of work: parts of its scratch.
class HeadCopies {
 public:
  HeadCopies(const AttentionShape& shape, DType dtype, float* memory)
      : shape_(shape), rows_(dtype), memory_(memory) {}
  /// The copy of `rows` tokens from `first` on.
  const float* read(const std::byte* data, int64_t sample, int64_t head, int64_t first,
                    int64_t rows);
  /// Room for as many.
  float* take(int64_t rows) {
    float* part = memory_;
    memory_ += round_up(rows * shape_.columns, kAttentionPad);
    return part;
  }
  void write(const float* copy, std::byte* data, int64_t sample, int64_t head, int64_t first,
             int64_t rows) const;
  [[nodiscard]] float* rest() const { return memory_; }

 private:
  [[nodiscard]] int64_t offset(int64_t sample, int64_t head, int64_t token) const {
    return (sample * shape_.tokens + token) * shape_.width() + head * shape_.columns;
  }
  const AttentionShape& shape_;
  FloatRows rows_;
  float* memory_;
};
/// Floats of `tensors` whole copies.
[[nodiscard]] inline int64_t copied_floats(const AttentionShape& shape, int64_t tensors) {
  return tensors * round_up(shape.tokens * shape.columns, kAttentionPad);
}

/// What the gradient's ops read and write: q, k, v, o, lse and diff_o come first, the mask is input
/// `mask`, and the random numbers are behind it.
[[nodiscard]] AttentionData grad_data(const Launch& launch, size_t mask);
/// The same where rows are in 16 bits: of copies of one head, whose results write_grad() stores.
[[nodiscard]] AttentionData copied_grad_data(const Launch& launch, size_t mask, HeadCopies& copies,
                                             int64_t sample, int64_t head, int64_t tokens);
void write_grad(const AttentionData& data, const Launch& launch, const HeadCopies& copies,
                int64_t sample, int64_t head, int64_t tokens);

/// In attention_grad_cpu.cc.
[[nodiscard]] int64_t attention_grad_scratch(const NodeSpec& spec, const CpuContext& context);
[[nodiscard]] std::unique_ptr<Kernel> create_attention_grad(const NodeSpec& spec,
                                                            const CpuContext& context);
[[nodiscard]] std::unique_ptr<Kernel> create_half_attention_grad(const NodeSpec& spec,
                                                                 const CpuContext& context);

}  // namespace snug
