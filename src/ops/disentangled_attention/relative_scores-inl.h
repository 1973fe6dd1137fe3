// SPDX-License-Identifier: Apache-2.0
// The terms of position in scores, and what flows back through them, tile by tile; what attention's
// units call at either side of their products (NoExtraScores in attention_launch_cpu.h).
//
// All pairs of one distance name one row of the tables. So blocks of scores are taken along
// diagonals: for a distance d, row r and a vector of queries i, both pos_key_r . q_i and
// pos_query_r . k_(i - d) lie one after the other in products whose first axis is the row. A
// transposition of one block of vectors turns distances into keys.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_OPS_RELATIVE_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_OPS_RELATIVE_SCORES_INL_H_
#undef SNUG_OPS_RELATIVE_SCORES_INL_H_
#else
#define SNUG_OPS_RELATIVE_SCORES_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "ops/attention/attention_gemm-inl.h"
#include "ops/disentangled_attention/disentangled_attention_launch_cpu.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// A tile of queries against a block of keys: the rows of the tables that its pairs name.
struct RelativeTile {
  const int32_t* row_of;
  int64_t nearest;   // query - key, of the first query and the last key
  int64_t farthest;  // of the last query and the first key
  int64_t rows;      // queries
  int64_t keys;

  [[nodiscard]] int64_t first_row() const { return row_of[nearest]; }
  [[nodiscard]] int64_t table_rows() const { return row_of[farthest] + 1 - row_of[nearest]; }
  /// Vectors at the corners hold pairs outside of the tile: any row does.
  [[nodiscard]] int64_t row(int64_t distance) const {
    return row_of[std::clamp(distance, nearest, farthest)];
  }
};
HWY_INLINE RelativeTile relative_tile(const int32_t* row_of, int64_t query, int64_t rows,
                                      int64_t key, int64_t keys) {
  return {row_of, query - (key + keys - 1), query + rows - 1 - key, rows, keys};
}

/// Products with rows of a table from `first_row` on, `stride` apart.
template <class Float>
struct TableProducts {
  Float* data;
  int64_t first_row;
  int64_t stride;
  [[nodiscard]] int64_t offset(int64_t row) const { return (row - first_row) * stride; }
};

// Blocks of lanes x lanes pairs: vector c of a block has one distance less than vector c - 1, and
// its lane k is the pair of query i + k and column shift + c + k. body(query_rows, key_rows, i,
// shift) with the offsets of every vector's rows; blocks of the same rows follow one another.
template <class Float, class Body>
HWY_INLINE void for_each_diagonal_block(const RelativeTile& tile,
                                        const TableProducts<Float>& by_query,
                                        const TableProducts<Float>& by_key, const Body& body) {
  const int64_t lanes = lanes_f32();
  constexpr size_t kLanes = hn::MaxLanes(F32());
  int64_t query_rows[kLanes];
  int64_t key_rows[kLanes];
  const int64_t last = (tile.rows - 1) / lanes * lanes;
  const int64_t columns = tile.keys + lanes - 1;
  for (int64_t first = -last; first < columns; first += lanes) {
    const int64_t distance = tile.nearest + columns - 1 - first;
    for (int64_t c = 0; c < lanes; ++c) {
      const int64_t row = tile.row(distance - c);
      query_rows[c] = by_query.offset(row);
      key_rows[c] = by_key.offset(row);
    }
    for (int64_t i = std::max<int64_t>(0, -first); i < tile.rows && first + i < columns; i += lanes)
      body(query_rows, key_rows, i, first + i - (lanes - 1));
  }
}

// scores(i, j) = by_query(row(i - j), i) + by_key(row(i - j), j) of those that are there.
template <bool kHasPosKey, bool kHasPosQuery>
HWY_NOINLINE void put_diagonals(const RelativeTile& tile,
                                const TableProducts<const float>& by_query,
                                const TableProducts<const float>& by_key, float* scores,
                                int64_t stride) {
  const F32 d;
  const int64_t lanes = lanes_f32();
  constexpr size_t kLanes = hn::MaxLanes(F32());
  HWY_ALIGN float block[kLanes * kLanes];
  const float* rows[kLanes];
  for (int64_t c = 0; c < lanes; ++c) rows[c] = block + c * lanes;
  for_each_diagonal_block(
      tile, by_query, by_key,
      [&](const int64_t* query_rows, const int64_t* key_rows, int64_t i, int64_t shift) HWY_ATTR {
        for (int64_t c = 0; c < lanes; ++c) {
          V32 sum = hn::Zero(d);
          if constexpr (kHasPosKey) sum = hn::LoadU(d, by_query.data + query_rows[c] + i);
          if constexpr (kHasPosQuery)
            sum = hn::Add(sum, hn::LoadU(d, by_key.data + key_rows[c] + shift + c));
          hn::Store(sum, d, block + c * lanes);
        }
        float* to = scores + i * stride + shift;
        transpose_rows(rows, lanes,
                       [=](V32 v, int64_t k) HWY_ATTR { hn::StoreU(v, d, to + k * (stride + 1)); });
      });
}

// by_query(row(i - j), i) += diff_scores(i, j), and by_key(row(i - j), j). Pairs outside of the
// tile hold zeros.
template <bool kHasPosKey, bool kHasPosQuery>
HWY_NOINLINE void add_diagonals(const RelativeTile& tile, const float* diff_scores, int64_t stride,
                                const TableProducts<float>& by_query,
                                const TableProducts<float>& by_key) {
  const F32 d;
  const int64_t lanes = lanes_f32();
  const float* rows[hn::MaxLanes(F32())];
  for_each_diagonal_block(
      tile, by_query, by_key,
      [&](const int64_t* query_rows, const int64_t* key_rows, int64_t i, int64_t shift) HWY_ATTR {
        const float* from = diff_scores + i * stride + shift;
        for (int64_t k = 0; k < lanes; ++k) rows[k] = from + k * (stride + 1);
        transpose_rows(rows, lanes, [=](V32 v, int64_t c) HWY_ATTR {
          if constexpr (kHasPosKey) {
            float* to = by_query.data + query_rows[c] + i;
            hn::StoreU(hn::Add(hn::LoadU(d, to), v), d, to);
          }
          if constexpr (kHasPosQuery) {
            float* to = by_key.data + key_rows[c] + shift + c;
            hn::StoreU(hn::Add(hn::LoadU(d, to), v), d, to);
          }
        });
      });
}

/// Scores of position for one unit of attention.
class RelativeScores {
 public:
  RelativeScores(const AttentionShape& shape, const AttentionBlocks& blocks,
                 const RelativeTables& tables, const TableScratch& scratch)
      : shape_(shape), blocks_(blocks), tables_(tables), scratch_(scratch) {}

  void start_keys(const float* packed_keys, int64_t key, int64_t keys, int64_t first, int64_t end) {
    key_ = key;
    keys_ = keys;
    if (tables_.pos_query == nullptr || first == end) return;
    const RelativeTile all = relative_tile(tables_.row_of, first, end - first, key, keys);
    first_key_row_ = all.first_row();
    key_rows_ = all.table_rows();
    first_ = first;
    end_ = end;
    for_each_key_part([&](const RelativeTile& part, int64_t at) HWY_ATTR {
      float* to = scratch_.key_products + kAttentionPad +
                  (part.first_row() - first_key_row_) * scratch_.key_stride + at;
      multiply_packed<false>(part.table_rows(), part.keys, shape_.columns,
                             tables_.pos_query + part.first_row() * tables_.stride, tables_.stride,
                             packed_keys + at * shape_.columns, to, scratch_.key_stride, false);
    });
  }

  bool put_scores(const float* q, int64_t stride, int64_t query, int64_t rows, float* scores) {
    const bool has_key = tables_.pos_key != nullptr;
    const bool has_query = tables_.pos_query != nullptr;
    const RelativeTile tile = tile_of(query, rows);
    if (has_key) {
      pack_transposed(q, stride, rows, shape_.columns, shape_.scale, scratch_.queries);
      multiply_packed<false>(tile.table_rows(), rows, shape_.columns,
                             tables_.pos_key + tile.first_row() * tables_.stride, tables_.stride,
                             scratch_.queries, scratch_.query_products, scratch_.query_stride,
                             false);
    }
    const auto by_query = of_queries<const float>(tile, scratch_.query_products);
    const auto by_key = of_keys<const float>(scratch_.key_products);
    const int64_t score_stride = blocks_.score_stride;
    if (has_key && has_query) {
      put_diagonals<true, true>(tile, by_query, by_key, scores, score_stride);
    } else if (has_key) {
      put_diagonals<true, false>(tile, by_query, by_key, scores, score_stride);
    } else if (has_query) {
      put_diagonals<false, true>(tile, by_query, by_key, scores, score_stride);
    }
    return has_key || has_query;
  }

 protected:
  [[nodiscard]] RelativeTile tile_of(int64_t query, int64_t rows) const {
    return relative_tile(tables_.row_of, query, rows, key_, keys_);
  }
  // body(part, first key in the block) for parts of the block: few keys meet fewer rows than many.
  // Parts are whole panels of packed keys.
  template <class Body>
  HWY_INLINE void for_each_key_part(const Body& body) const {
    constexpr int64_t kPart = 64;
    for (int64_t at = 0; at < keys_; at += kPart) {
      body(relative_tile(tables_.row_of, first_, end_ - first_, key_ + at,
                         std::min(kPart, keys_ - at)),
           at);
    }
  }
  template <class Float>
  [[nodiscard]] TableProducts<Float> of_queries(const RelativeTile& tile, Float* data) const {
    return {data, tile.first_row(), scratch_.query_stride};
  }
  template <class Float>
  [[nodiscard]] TableProducts<Float> of_keys(Float* data) const {
    return {data == nullptr ? nullptr : data + kAttentionPad, first_key_row_, scratch_.key_stride};
  }

  const AttentionShape& shape_;
  const AttentionBlocks& blocks_;
  const RelativeTables& tables_;
  const TableScratch& scratch_;
  int64_t key_ = 0;
  int64_t keys_ = 0;
  int64_t first_ = 0;  // of the queries that meet them, to end_
  int64_t end_ = 0;
  int64_t first_key_row_ = 0;
  int64_t key_rows_ = 0;
};

/// And the way back.
class RelativeGradients : public RelativeScores {
 public:
  RelativeGradients(const AttentionShape& shape, const AttentionBlocks& blocks,
                    const RelativeTables& tables, const TableGradScratch& scratch)
      : RelativeScores(shape, blocks, tables, scratch),
        grad_(scratch),
        stride_(vectors_of(shape.columns) * lanes_f32()) {}

  void start_keys(const float* packed_keys, int64_t key, int64_t keys, int64_t first, int64_t end) {
    RelativeScores::start_keys(packed_keys, key, keys, first, end);
    if (tables_.pos_query == nullptr) return;
    std::fill_n(grad_.diff_key_products, kAttentionPad + key_rows_ * grad_.key_stride, 0.0F);
  }

  void add_gradients(float* diff_scores, int64_t query, int64_t rows, const float* packed_queries,
                     float* diff_q) {
    const bool has_key = tables_.pos_key != nullptr;
    const bool has_query = tables_.pos_query != nullptr;
    if (!has_key && !has_query) return;
    zero_outside(diff_scores, rows);
    const RelativeTile tile = tile_of(query, rows);
    const int64_t table_rows = tile.table_rows();
    const auto by_query = of_queries(tile, grad_.diff_query_products);
    const auto by_key = of_keys(grad_.diff_key_products);
    const int64_t score_stride = blocks_.score_stride;
    if (has_key) std::fill_n(grad_.diff_query_products, table_rows * grad_.query_stride, 0.0F);
    if (has_key && has_query) {
      add_diagonals<true, true>(tile, diff_scores, score_stride, by_query, by_key);
    } else if (has_key) {
      add_diagonals<true, false>(tile, diff_scores, score_stride, by_query, by_key);
    } else {
      add_diagonals<false, true>(tile, diff_scores, score_stride, by_query, by_key);
    }
    if (!has_key) return;
    pack_rows(tables_.pos_key + tile.first_row() * tables_.stride, tables_.stride, table_rows,
              shape_.columns, shape_.scale, grad_.packed_rows);
    multiply_packed<true>(rows, shape_.columns, table_rows, grad_.diff_query_products,
                          grad_.query_stride, grad_.packed_rows, diff_q, stride_, true);
    multiply_packed<false>(table_rows, shape_.columns, rows, grad_.diff_query_products,
                           grad_.query_stride, packed_queries,
                           grad_.diff_pos_key + tile.first_row() * stride_, stride_, true);
  }

  void finish_keys(const float* packed_keys, float* diff_k) {
    if (tables_.pos_query == nullptr) return;
    const float* products = grad_.diff_key_products + kAttentionPad;
    pack_rows(tables_.pos_query + first_key_row_ * tables_.stride, tables_.stride, key_rows_,
              shape_.columns, 1.0F, grad_.packed_rows);
    for_each_key_part([&](const RelativeTile& part, int64_t at) HWY_ATTR {
      const int64_t row = part.first_row() - first_key_row_;
      const float* of_part = products + row * grad_.key_stride + at;
      multiply_packed<true>(part.keys, shape_.columns, part.table_rows(), of_part, grad_.key_stride,
                            PackedRows{grad_.packed_rows, key_rows_, row}, diff_k + at * stride_,
                            stride_, true);
      multiply_packed<false>(part.table_rows(), shape_.columns, part.keys, of_part,
                             grad_.key_stride, PackedRows{packed_keys, keys_, at},
                             grad_.diff_pos_query + part.first_row() * stride_, stride_, true);
    });
  }

  void clear_sums(int64_t table_rows) {
    for (float* sums : {grad_.diff_pos_key, grad_.diff_pos_query}) {
      if (sums != nullptr) std::fill_n(sums, table_rows * stride_, 0.0F);
    }
  }
  void write_sums(int64_t table_rows) {
    write(grad_.diff_pos_key, shape_.scale, table_rows, tables_.diff_pos_key);
    write(grad_.diff_pos_query, 1.0F, table_rows, tables_.diff_pos_query);  // keys came scaled
  }

 private:
  void write(const float* sums, float scale, int64_t table_rows, float* dst) {
    if (sums == nullptr) return;
    const V32 factor = constant(scale);
    for (int64_t r = 0; r < table_rows; ++r) {
      map_vectors(dst + r * tables_.diff_stride, sums + r * stride_, shape_.columns,
                  [=](V32 v) HWY_ATTR { return hn::Mul(v, factor); });
    }
  }
  // What vectors at the corners of a tile reach.
  void zero_outside(float* diff_scores, int64_t rows) const {
    const int64_t stride = blocks_.score_stride;
    const int64_t present = vectors_of(keys_) * lanes_f32();
    std::fill_n(diff_scores - kAttentionPad, kAttentionPad, 0.0F);
    for (int64_t i = 0; i < rows; ++i)
      std::fill_n(diff_scores + i * stride + present, stride - present, 0.0F);
    const int64_t whole = (rows + lanes_f32() - 1) / lanes_f32() * lanes_f32();
    std::fill_n(diff_scores + rows * stride, (whole - rows) * stride, 0.0F);
  }

  const TableGradScratch& grad_;
  int64_t stride_;  // of padded rows of D columns
};

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#endif
