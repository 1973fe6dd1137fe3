// SPDX-License-Identifier: Apache-2.0
// Small matrix products of attention on bf16 operands, with the processor's dot products of pairs
// (AVX512_BF16: two products are added into a lane of f32). Depth is counted in pairs, the last
// filled up with zeros. As attention_gemm-inl.h has them, in the order of its loops: A is read one
// pair at a time, from rows or from columns; B is packed into panels of one tile's width, a lane a
// pair. Empty where Highway's target is not AVX-512; whoever calls asks has_bf16_products() first.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_OPS_ATTENTION_BF16_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_OPS_ATTENTION_BF16_GEMM_INL_H_
#undef SNUG_OPS_ATTENTION_BF16_GEMM_INL_H_
#else
#define SNUG_OPS_ATTENTION_BF16_GEMM_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "backend/cpu/pairs-inl.h"
#include "backend/cpu/rows-inl.h"
#include "hwy/highway.h"
#include "ops/attention/attention_gemm-inl.h"

#if SNUG_BF16_TARGET
HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

HWY_INLINE int64_t pairs_of(int64_t depth) { return (depth + 1) / 2; }

/// 32 numbers in bf16, rounded to the nearest even: those of `low`, then those of `high`.
SNUG_BF16_ATTR HWY_INLINE Pairs round_both(V32 low, V32 high) {
  return Pairs{__builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(high.raw, low.raw))};
}

/// What puts round_both()'s numbers side by side: lane i becomes low i, high i.
struct SideBySide {
  Pairs indices;
};
HWY_INLINE SideBySide side_by_side() {
  HWY_ALIGN uint16_t indices[32];
  for (uint16_t i = 0; i < 16; ++i) {
    indices[2 * i] = i;
    indices[2 * i + 1] = static_cast<uint16_t>(16 + i);
  }
  return {hn::Load(U32(), reinterpret_cast<const uint32_t*>(indices))};
}
HWY_INLINE Pairs interleave(SideBySide order, Pairs both) {
  return Pairs{_mm512_permutexvar_epi16(order.indices.raw, both.raw)};
}

// All rows of one panel.
template <int64_t kVectors, bool kColumns>
HWY_INLINE void multiply_pairs_panel(int64_t rows, PairOperand a, const uint32_t* b, int64_t pairs,
                                     float* c, int64_t c_stride, bool accumulates) {
  const int64_t step = kColumns ? 2 : a.stride;
  int64_t i = 0;
  const auto tile = [&](auto function, int64_t count) {
    function({a.data + i * step, a.stride}, b, pairs, c + i * c_stride, c_stride, accumulates);
    i += count;
  };
  while (rows - i >= kTileRows) tile(multiply_pairs_tile<kTileRows, kVectors, kColumns>, kTileRows);
  if (rows - i >= 4) tile(multiply_pairs_tile<4, kVectors, kColumns>, 4);
  if (rows - i >= 2) tile(multiply_pairs_tile<2, kVectors, kColumns>, 2);
  if (rows - i >= 1) tile(multiply_pairs_tile<1, kVectors, kColumns>, 1);
}

/// C(rows, columns) = A(rows, depth) B(depth, columns), or += where `accumulates`. C has room for
/// whole vectors in every row.
template <bool kColumns>
HWY_NOINLINE void multiply_pairs(int64_t rows, int64_t columns, int64_t depth, PairOperand a,
                                 const uint32_t* b, float* c, int64_t c_stride, bool accumulates) {
  const int64_t lanes = lanes_f32();
  const int64_t vectors = vectors_of(columns);
  const int64_t pairs = pairs_of(depth);
  for (int64_t first = 0; first < vectors; first += kTileVectors) {
    const int64_t count = std::min(kTileVectors, vectors - first);
    const uint32_t* panel = b + first * pairs * lanes;
    float* to = c + first * lanes;
    for (int64_t p = 0; p < pairs; p += kPanelDepth) {
      const int64_t part = std::min(kPanelDepth, pairs - p);
      const PairOperand from{a.data + (kColumns ? p * a.stride : 2 * p), a.stride};
      const uint32_t* rows_of_b = panel + p * count * lanes;
      const bool adds = accumulates || p > 0;
      if (count == 4) {
        multiply_pairs_panel<4, kColumns>(rows, from, rows_of_b, part, to, c_stride, adds);
      } else if (count == 3) {
        multiply_pairs_panel<3, kColumns>(rows, from, rows_of_b, part, to, c_stride, adds);
      } else if (count == 2) {
        multiply_pairs_panel<2, kColumns>(rows, from, rows_of_b, part, to, c_stride, adds);
      } else {
        multiply_pairs_panel<1, kColumns>(rows, from, rows_of_b, part, to, c_stride, adds);
      }
    }
  }
}

/// A of rows: `rows` rows of `columns` numbers, `stride` apart, to rows of whole pairs.
HWY_INLINE void copy_rows(const uint16_t* src, int64_t stride, int64_t rows, int64_t columns,
                          uint16_t* dst) {
  const int64_t width = 2 * pairs_of(columns);
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(dst, src + i * stride, static_cast<size_t>(columns) * sizeof *src);
    if (columns < width) dst[columns] = 0;
    dst += width;
  }
}

/// B = src, with src (depth, columns) in rows `stride` apart: pairs of rows.
HWY_INLINE void pack_row_pairs(const uint16_t* src, int64_t stride, int64_t depth, int64_t columns,
                               uint32_t* dst) {
  const U16 narrow;
  const U32 wide;
  const int64_t lanes = lanes_f32();
  const int64_t vectors = vectors_of(columns);
  for (int64_t first = 0; first < vectors; first += kTileVectors) {
    const int64_t last = std::min(first + kTileVectors, vectors);
    for (int64_t p = 0; p < depth; p += 2) {
      for (int64_t v = first; v < last; ++v) {
        const int64_t left = columns - v * lanes;
        const auto load = [&](int64_t row) HWY_ATTR {
          const uint16_t* at = src + row * stride + v * lanes;
          return hn::PromoteTo(wide,
                               left >= lanes ? hn::LoadU(narrow, at) : load_tail(narrow, at, left));
        };
        Pairs pairs = load(p);
        if (p + 1 < depth) pairs = hn::Or(pairs, hn::ShiftLeft<16>(load(p + 1)));
        hn::StoreU(pairs, wide, dst);
        dst += lanes;
      }
    }
  }
}

/// B = src^T, with src (columns, depth) in rows `stride` apart: pairs of a row's numbers.
HWY_INLINE void pack_pairs_transposed(const uint16_t* src, int64_t stride, int64_t columns,
                                      int64_t depth, uint32_t* dst) {
  const U32 d;
  const int64_t lanes = lanes_f32();
  const int64_t vectors = vectors_of(columns);
  const int64_t pairs = pairs_of(depth);
  for (int64_t vector = 0; vector < vectors; ++vector) {
    const int64_t panel = vector / kTileVectors * kTileVectors;
    const int64_t width = std::min(kTileVectors, vectors - panel) * lanes;
    uint32_t* to = dst + panel * lanes * pairs + (vector - panel) * lanes;
    // Rows beyond the last repeat it and are zeroed below.
    const int64_t present = std::min(lanes, columns - vector * lanes);
    const auto is_present = hn::FirstN(d, static_cast<size_t>(present));
    const float* rows[hn::MaxLanes(F32())];
    for (int64_t i = 0; i < lanes; ++i) {
      rows[i] = reinterpret_cast<const float*>(src + (vector * lanes + std::min(i, present - 1)) *
                                                         stride);
    }
    const int64_t whole = depth / 8 * 4;
    transpose_rows(rows, whole, [=](V32 v, int64_t p) HWY_ATTR {
      hn::StoreU(hn::IfThenElseZero(is_present, hn::BitCast(d, v)), d, to + p * width);
    });
    for (int64_t p = whole; p < pairs; ++p) {
      for (int64_t i = 0; i < lanes; ++i) {
        const uint16_t* at = src + (vector * lanes + i) * stride + 2 * p;
        uint32_t pair = 0;
        if (i < present) {
          pair = at[0];
          if (2 * p + 1 < depth) pair |= static_cast<uint32_t>(at[1]) << 16;
        }
        to[p * width + i] = pair;
      }
    }
  }
}

/// dst[i] = src[i] * factor, rounded to the nearest even.
SNUG_BF16_ATTR HWY_INLINE void put_bf16_row(const float* src, V32 factor, int64_t columns,
                                            uint16_t* dst) {
  const int64_t lanes = lanes_f32();
  const auto rounded = [&](V32 v) SNUG_BF16_ATTR {
    return hn::Vec<U16>{__builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(hn::Mul(v, factor).raw))};
  };
  int64_t i = 0;
  for (; i + lanes <= columns; i += lanes)
    hn::StoreU(rounded(hn::LoadU(F32(), src + i)), U16(), dst + i);
  if (i < columns)
    store_tail(rounded(load_tail(F32(), src + i, columns - i)), U16(), dst + i, columns - i);
}

/// As prefetch_row().
HWY_INLINE void prefetch_bf16_row(const uint16_t* row, int64_t columns) {
  constexpr int64_t kCacheLine = 32;
  for (int64_t i = 0; i < columns; i += kCacheLine) __builtin_prefetch(row + i, 0, 2);
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();
#endif  // SNUG_BF16_TARGET

#endif
