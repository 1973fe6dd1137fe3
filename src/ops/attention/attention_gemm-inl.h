// SPDX-License-Identifier: Apache-2.0
// Small matrix products of attention on one core, compiled once a Highway target: register tiles of
// kTileRows rows by kTileVectors vectors of C += A B. A is read one number at a time, from rows or
// from columns, so it needs no packing; B is packed into panels of one tile's width, so that the
// inner loop reads memory in order. Columns of B and C are padded to whole vectors. The order of
// additions depends on sizes only.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_OPS_ATTENTION_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_OPS_ATTENTION_GEMM_INL_H_
#undef SNUG_OPS_ATTENTION_GEMM_INL_H_
#else
#define SNUG_OPS_ATTENTION_GEMM_INL_H_
#endif

#include <algorithm>

#include "backend/cpu/philox-inl.h"
#include "backend/cpu/rows-inl.h"
#include "hwy/highway.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_launch_cpu.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// 24 accumulators of 32 registers with AVX-512, 12 of 16 elsewhere: more than latency times ports
// asks for.
constexpr int64_t kTileRows = 6;
#if HWY_TARGET <= HWY_AVX3
constexpr int64_t kTileVectors = 4;
#else
constexpr int64_t kTileVectors = 2;
#endif
// Rows of a panel of B that stay in the first-level cache while all rows of A pass over them.
constexpr int64_t kPanelDepth = 128;

HWY_INLINE int64_t vectors_of(int64_t columns) { return (columns + lanes_f32() - 1) / lanes_f32(); }

// A(i, p) is a[p * stride + i] where kColumns, else a[i * stride + p].
template <int64_t kRows, int64_t kVectors, bool kColumns>
HWY_NOINLINE void multiply_tile(const float* HWY_RESTRICT a, int64_t a_stride,
                                const float* HWY_RESTRICT b, int64_t depth, float* HWY_RESTRICT c,
                                int64_t c_stride, bool accumulates) {
  const F32 d;
  const int64_t lanes = lanes_f32();
  V32 sum[kRows][kVectors];
  HWY_UNROLL(8)
  for (int64_t i = 0; i < kRows; ++i) {
    HWY_UNROLL(8)
    for (int64_t v = 0; v < kVectors; ++v) {
      sum[i][v] = accumulates ? hn::LoadU(d, c + i * c_stride + v * lanes) : hn::Zero(d);
    }
  }
  for (int64_t p = 0; p < depth; ++p) {
    V32 row[kVectors];
    HWY_UNROLL(8)
    for (int64_t v = 0; v < kVectors; ++v) row[v] = hn::LoadU(d, b + v * lanes);
    b += kVectors * lanes;
    HWY_UNROLL(8)
    for (int64_t i = 0; i < kRows; ++i) {
      const V32 factor = hn::Set(d, kColumns ? a[p * a_stride + i] : a[i * a_stride + p]);
      HWY_UNROLL(8)
      for (int64_t v = 0; v < kVectors; ++v) sum[i][v] = hn::MulAdd(factor, row[v], sum[i][v]);
    }
  }
  HWY_UNROLL(8)
  for (int64_t i = 0; i < kRows; ++i) {
    HWY_UNROLL(8)
    for (int64_t v = 0; v < kVectors; ++v) hn::StoreU(sum[i][v], d, c + i * c_stride + v * lanes);
  }
}

// All rows of one panel.
template <int64_t kVectors, bool kColumns>
HWY_INLINE void multiply_panel(int64_t rows, const float* a, int64_t a_stride, const float* b,
                               int64_t depth, float* c, int64_t c_stride, bool accumulates) {
  const int64_t step = kColumns ? 1 : a_stride;
  int64_t i = 0;
  const auto tile = [&](auto function, int64_t count) {
    function(a + i * step, a_stride, b, depth, c + i * c_stride, c_stride, accumulates);
    i += count;
  };
  while (rows - i >= kTileRows) tile(multiply_tile<kTileRows, kVectors, kColumns>, kTileRows);
  if (rows - i >= 4) tile(multiply_tile<4, kVectors, kColumns>, 4);
  if (rows - i >= 2) tile(multiply_tile<2, kVectors, kColumns>, 2);
  if (rows - i >= 1) tile(multiply_tile<1, kVectors, kColumns>, 1);
}

/// Rows of a packed B: `depth` from `first` on, of those that were packed together.
struct PackedRows {
  const float* data;
  int64_t packed;
  int64_t first;
};

/// C(rows, columns) = A(rows, depth) B(depth, columns), or += where `accumulates`. C has room for
/// whole vectors in every row.
template <bool kColumns>
HWY_NOINLINE void multiply_packed(int64_t rows, int64_t columns, int64_t depth, const float* a,
                                  int64_t a_stride, PackedRows b, float* c, int64_t c_stride,
                                  bool accumulates) {
  const int64_t lanes = lanes_f32();
  const int64_t vectors = vectors_of(columns);
  for (int64_t first = 0; first < vectors; first += kTileVectors) {
    const int64_t count = std::min(kTileVectors, vectors - first);
    const float* panel = b.data + (first * b.packed + b.first * count) * lanes;
    float* to = c + first * lanes;
    for (int64_t p = 0; p < depth; p += kPanelDepth) {
      const int64_t part = std::min(kPanelDepth, depth - p);
      const float* from = a + (kColumns ? p * a_stride : p);
      const float* rows_of_b = panel + p * count * lanes;
      const bool adds = accumulates || p > 0;
      if (count == kTileVectors) {
        multiply_panel<kTileVectors, kColumns>(rows, from, a_stride, rows_of_b, part, to, c_stride,
                                               adds);
      } else if (count == 3) {
        multiply_panel<std::min<int64_t>(3, kTileVectors), kColumns>(
            rows, from, a_stride, rows_of_b, part, to, c_stride, adds);
      } else if (count == 2) {
        multiply_panel<2, kColumns>(rows, from, a_stride, rows_of_b, part, to, c_stride, adds);
      } else {
        multiply_panel<1, kColumns>(rows, from, a_stride, rows_of_b, part, to, c_stride, adds);
      }
    }
  }
}

/// The same with all rows that were packed.
template <bool kColumns>
HWY_INLINE void multiply_packed(int64_t rows, int64_t columns, int64_t depth, const float* a,
                                int64_t a_stride, const float* b, float* c, int64_t c_stride,
                                bool accumulates) {
  multiply_packed<kColumns>(rows, columns, depth, a, a_stride, PackedRows{b, depth, 0}, c, c_stride,
                            accumulates);
}

/// B = scale * src, with src (depth, columns) in rows `stride` apart.
HWY_INLINE void pack_rows(const float* src, int64_t stride, int64_t depth, int64_t columns,
                          float scale, float* dst) {
  const F32 d;
  const int64_t lanes = lanes_f32();
  const int64_t vectors = vectors_of(columns);
  const V32 factor = hn::Set(d, scale);
  for (int64_t first = 0; first < vectors; first += kTileVectors) {
    const int64_t count = std::min(kTileVectors, vectors - first);
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t v = first; v < first + count; ++v) {
        const int64_t left = columns - v * lanes;
        const V32 x = load_at(src + p * stride, v * lanes, left >= lanes ? -1 : left);
        hn::StoreU(hn::Mul(x, factor), d, dst);
        dst += lanes;
      }
    }
  }
}

#if HWY_TARGET == HWY_SCALAR

/// put(v, p) for p < depth: v is rows[0][p].
template <class Put>
HWY_INLINE void transpose_rows(const float* const* rows, int64_t depth, const Put& put) {
  for (int64_t p = 0; p < depth; ++p) put(hn::Set(F32(), rows[0][p]), p);
}

HWY_INLINE void pack_transposed(const float* src, int64_t stride, int64_t columns, int64_t depth,
                                float scale, float* dst) {
  for (int64_t first = 0; first < columns; first += kTileVectors) {
    const int64_t count = std::min(kTileVectors, columns - first);
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t j = first; j < first + count; ++j) *dst++ = scale * src[j * stride + p];
    }
  }
}

#else

// Four floats of each of lanes / 4 rows that lie `stride` apart, one 128-bit block a row.
template <class D>
HWY_INLINE hn::Vec<D> load_blocks(D d, const float* const* rows, int64_t at) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    return hn::LoadU(d, rows[0] + at);
  } else {
    const hn::Half<D> half;
    constexpr size_t kHalfBlocks = hn::MaxLanes(D()) / 8;
    return hn::Combine(d, load_blocks(half, rows + 4 * kHalfBlocks, at),
                       load_blocks(half, rows, at));
  }
}

/// put(v, p) for p < depth, a multiple of 4: lane i of v is rows[i][p]. One vector of rows and four
/// p at a time, as transpositions of 4 x 4 blocks.
template <class Put>
HWY_INLINE void transpose_rows(const float* const* rows, int64_t depth, const Put& put) {
  const F32 d;
  const hn::RepartitionToWide<F32> pairs;
  for (int64_t p = 0; p < depth; p += 4) {
    // Block i of row_j holds row 4 i + j.
    const V32 row0 = load_blocks(d, rows, p);
    const V32 row1 = load_blocks(d, rows + 1, p);
    const V32 row2 = load_blocks(d, rows + 2, p);
    const V32 row3 = load_blocks(d, rows + 3, p);
    const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, row0, row1));
    const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, row2, row3));
    const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, row0, row1));
    const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, row2, row3));
    put(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), p);
    put(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), p + 1);
    put(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), p + 2);
    put(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), p + 3);
  }
}

/// B = scale * src^T, with src (columns, depth) in rows `stride` apart.
HWY_INLINE void pack_transposed(const float* src, int64_t stride, int64_t columns, int64_t depth,
                                float scale, float* dst) {
  const F32 d;
  const int64_t lanes = lanes_f32();
  const int64_t vectors = vectors_of(columns);
  const V32 factor = hn::Set(d, scale);
  for (int64_t vector = 0; vector < vectors; ++vector) {
    const int64_t panel = vector / kTileVectors * kTileVectors;
    const int64_t width = std::min(kTileVectors, vectors - panel) * lanes;
    float* to = dst + panel * lanes * depth + (vector - panel) * lanes;
    // Rows beyond the last repeat it and are zeroed below.
    const int64_t present = std::min(lanes, columns - vector * lanes);
    const auto is_present = hn::FirstN(d, static_cast<size_t>(present));
    const float* rows[hn::MaxLanes(F32())];
    for (int64_t i = 0; i < lanes; ++i)
      rows[i] = src + (vector * lanes + std::min(i, present - 1)) * stride;
    const int64_t whole = depth / 4 * 4;
    transpose_rows(rows, whole, [=](V32 v, int64_t p) HWY_ATTR {
      hn::StoreU(hn::IfThenElseZero(is_present, hn::Mul(v, factor)), d, to + p * width);
    });
    for (int64_t p = whole; p < depth; ++p) {
      for (int64_t i = 0; i < lanes; ++i) to[p * width + i] = i < present ? scale * rows[i][p] : 0;
    }
  }
}

#endif

/// Asks for one row of the next unit. Rows of one head are short and lie E floats apart, which
/// hardware prefetchers miss; one request a row of scores hides their latency behind arithmetic.
HWY_INLINE void prefetch_row(const float* row, int64_t columns) {
  constexpr int64_t kCacheLineFloats = 16;
  for (int64_t i = 0; i < columns; i += kCacheLineFloats) __builtin_prefetch(row + i, 0, 2);
}

/// The random numbers of one head of one sample; `rng`: seed, update, first slot.
HWY_INLINE PhiloxRow random_row_of_head(const AttentionShape& shape, const int64_t* rng,
                                        int64_t sample, int64_t head) {
  return philox_row(static_cast<uint64_t>(rng[0]), static_cast<uint32_t>(rng[2] + sample),
                    static_cast<uint32_t>(rng[1]),
                    static_cast<uint32_t>(attention_ordinal(shape.ordinal, head)));
}

/// limits[i] = +inf where key i of n is visible, else -inf; `padded` limits in all.
HWY_INLINE void fill_limits(const uint8_t* mask, int64_t n, int64_t padded, float* limits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < n; ++i)
    limits[i] = mask == nullptr || mask[i] != 0 ? kInfinity : -kInfinity;
  std::fill(limits + n, limits + padded, -kInfinity);
}
/// The same, padded to whole vectors.
HWY_INLINE void fill_limits(const uint8_t* mask, int64_t n, float* limits) {
  fill_limits(mask, n, vectors_of(n) * lanes_f32(), limits);
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#endif
