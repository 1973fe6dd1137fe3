// SPDX-License-Identifier: Apache-2.0
// Small matrix products of attention on the processor's tiles (AMX): 16 rows of 64 bytes each, of
// which one instruction adds the product of 16 x 32 and 32 x 16 numbers in bf16 to 16 x 16 sums in
// f32. All sizes are multiples of 32 here; whoever packs fills up with zeros, which change no sum.
//
// A sum over the depth is made of parts of 32 numbers, in order: of each, the products at even
// places and those at odd places are summed by themselves, then both, then with what was there. So
// an element of a result depends on its row and its column only.
//
// Empty where Highway's target is not AVX-512; whoever calls asks has_amx() first.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_OPS_ATTENTION_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_OPS_ATTENTION_TILES_INL_H_
#undef SNUG_OPS_ATTENTION_TILES_INL_H_
#else
#define SNUG_OPS_ATTENTION_TILES_INL_H_
#endif

#include "hwy/highway.h"
#include "ops/attention/attention_bf16_gemm-inl.h"
#include "ops/attention/attention_tiles_launch_cpu.h"

#if SNUG_BF16_TARGET
HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// As SNUG_BF16_ATTR, of functions that have tiles.
#undef SNUG_TILE_ATTR
#define SNUG_TILE_ATTR __attribute__((target(HWY_TARGET_STR ",amx-tile,amx-bf16")))

/// Where the tiles of A (rows, depth) or of B (depth, columns) lie, in bytes. A tile of A has 16
/// rows and 32 numbers of the depth; one of B has 16 pairs of the depth and 16 columns.
struct TileOperand {
  const void* data;
  int64_t across;  // to the next 16 rows of A or columns of B
  int64_t along;   // to the next 32 of the depth
  int64_t row;     // to the next row of a tile
};
/// Packed tiles: those of one row or column of them, then the next.
HWY_INLINE TileOperand packed_tiles(const void* data, int64_t depth) {
  return {data, depth / kTileDepth * kTileBytes, kTileBytes, kTileBytes / kTileSide};
}
/// A in rows of numbers, `stride` bytes apart.
HWY_INLINE TileOperand rows_of_tiles(const void* data, int64_t stride) {
  return {data, kTileSide * stride, kTileDepth * 2, stride};
}

/// C(rows, columns) = A(rows, depth) B(depth, columns), or += where `accumulates`; within the life
/// of a TileConfig. Four tiles of C at once, so that each tile of A and B is used twice and enough
/// sums are under way.
SNUG_TILE_ATTR HWY_NOINLINE inline void multiply_tiles(int64_t rows, int64_t columns, int64_t depth,
                                                       TileOperand a, TileOperand b, float* c,
                                                       int64_t c_stride, bool accumulates) {
  // GCC 12 does not know that its tile instructions read memory: what they read is stored here.
  asm volatile("" ::: "memory");
  const auto* a_data = static_cast<const uint8_t*>(a.data);
  const auto* b_data = static_cast<const uint8_t*>(b.data);
  const int64_t c_row = c_stride * static_cast<int64_t>(sizeof *c);
  for (int64_t j = 0; j < columns; j += 2 * kTileSide) {
    const uint8_t* b0 = b_data + j / kTileSide * b.across;
    for (int64_t i = 0; i < rows; i += 2 * kTileSide) {
      const uint8_t* a0 = a_data + i / kTileSide * a.across;
      float* c0 = c + i * c_stride + j;
      float* c1 = c0 + kTileSide * c_stride;
      if (accumulates) {
        _tile_loadd(0, c0, c_row);
        _tile_loadd(1, c0 + kTileSide, c_row);
        _tile_loadd(2, c1, c_row);
        _tile_loadd(3, c1 + kTileSide, c_row);
      } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
      }
      for (int64_t p = 0; p < depth; p += kTileDepth) {
        const uint8_t* a_at = a0 + p / kTileDepth * a.along;
        const uint8_t* b_at = b0 + p / kTileDepth * b.along;
        _tile_loadd(6, b_at, b.row);
        _tile_loadd(4, a_at, a.row);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b_at + b.across, b.row);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a_at + a.across, a.row);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
      _tile_stored(0, c0, c_row);
      _tile_stored(1, c0 + kTileSide, c_row);
      _tile_stored(2, c1, c_row);
      _tile_stored(3, c1 + kTileSide, c_row);
    }
  }
}

/// Rows of a matrix in bf16, `stride` numbers apart.
struct Bf16Rows {
  const uint16_t* data;
  int64_t stride;
  int64_t rows;
  int64_t columns;
};

// 32 numbers of a row from `column` on; zeros beyond the matrix.
HWY_INLINE Pairs load_32(const Bf16Rows& src, int64_t row, int64_t column) {
  const hn::ScalableTag<uint16_t> d;
  const int64_t left = row < src.rows ? std::clamp<int64_t>(src.columns - column, 0, 32) : 0;
  const uint16_t* at = src.data + row * src.stride + column;
  if (left == 32) return hn::BitCast(U32(), hn::LoadU(d, at));
  return left == 0 ? hn::Zero(U32()) : hn::BitCast(U32(), load_tail(d, at, left));
}
// Rows `row` and `row` + 1, side by side: 16 columns from `column` on.
HWY_INLINE Pairs load_row_pair(const Bf16Rows& src, int64_t row, int64_t column) {
  const U16 d;
  const int64_t columns = std::clamp<int64_t>(src.columns - column, 0, kTileSide);
  const auto load = [&](int64_t r) HWY_ATTR {
    const int64_t left = r < src.rows ? columns : 0;
    const uint16_t* at = src.data + r * src.stride + column;
    if (left == kTileSide) return hn::PromoteTo(U32(), hn::LoadU(d, at));
    return left == 0 ? hn::Zero(U32()) : hn::PromoteTo(U32(), load_tail(d, at, left));
  };
  return hn::Or(load(row), hn::ShiftLeft<16>(load(row + 1)));
}

/// A = src, in rows of `padded_columns` numbers.
HWY_INLINE void put_rows(const Bf16Rows& src, int64_t padded_rows, int64_t padded_columns,
                         uint16_t* dst) {
  for (int64_t i = 0; i < padded_rows; ++i) {
    for (int64_t j = 0; j < padded_columns; j += kTileDepth) {
      hn::StoreU(load_32(src, i, j), U32(), reinterpret_cast<uint32_t*>(dst));
      dst += kTileDepth;
    }
  }
}

/// B = src, packed: the depth is src's rows.
inline void pack_tiles(const Bf16Rows& src, int64_t depth, int64_t columns, uint32_t* dst) {
  for (int64_t j = 0; j < columns; j += kTileSide) {
    for (int64_t p = 0; p < depth; p += 2) {
      hn::StoreU(load_row_pair(src, p, j), U32(), dst);
      dst += kTileSide;
    }
  }
}

// A tile whose row i is what the rows have at i: pairs of bf16, or numbers in f32.
HWY_INLINE void store_transposed(const float* const* rows, float* dst) {
  transpose_rows(rows, kTileSide,
                 [=](V32 v, int64_t i) HWY_ATTR { hn::StoreU(v, F32(), dst + i * kTileSide); });
}
// A tile's rows before they are transposed, where they do not lie in memory as they are.
struct TileRows {
  HWY_ALIGN float numbers[kTileSide * kTileSide];

  HWY_INLINE void put(int64_t i, Pairs pairs) {
    hn::StoreU(hn::BitCast(F32(), pairs), F32(), numbers + i * kTileSide);
  }
  HWY_INLINE void store_transposed_at(float* dst) const {
    const float* rows[kTileSide];
    for (int64_t i = 0; i < kTileSide; ++i) rows[i] = numbers + i * kTileSide;
    store_transposed(rows, dst);
  }
};

/// B = src^T, packed: the depth is src's columns.
inline void pack_transposed_tiles(const Bf16Rows& src, int64_t depth, int64_t columns,
                                  uint32_t* packed) {
  auto* dst = reinterpret_cast<float*>(packed);
  for (int64_t j = 0; j < columns; j += kTileSide) {
    for (int64_t p = 0; p < depth; p += kTileDepth) {
      if (j + kTileSide <= src.rows && p + kTileDepth <= src.columns) {
        const float* rows[kTileSide];
        for (int64_t i = 0; i < kTileSide; ++i)
          rows[i] = reinterpret_cast<const float*>(src.data + (j + i) * src.stride + p);
        store_transposed(rows, dst);
      } else {
        TileRows rows;
        for (int64_t i = 0; i < kTileSide; ++i) rows.put(i, load_32(src, j + i, p));
        rows.store_transposed_at(dst);
      }
      dst += kTileSide * kTileSide;
    }
  }
}

/// A = src^T, packed: the depth is src's rows.
inline void pack_transposed_rows(const Bf16Rows& src, int64_t rows, int64_t depth,
                                 uint32_t* packed) {
  auto* dst = reinterpret_cast<float*>(packed);
  for (int64_t i = 0; i < rows; i += kTileSide) {
    for (int64_t p = 0; p < depth; p += kTileDepth) {
      TileRows pairs;
      for (int64_t pair = 0; pair < kTileSide; ++pair)
        pairs.put(pair, load_row_pair(src, p + 2 * pair, i));
      pairs.store_transposed_at(dst);
      dst += kTileSide * kTileSide;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();
#endif  // SNUG_BF16_TARGET

#endif
