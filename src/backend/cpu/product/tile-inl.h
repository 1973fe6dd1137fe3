// SPDX-License-Identifier: Apache-2.0
// The innermost loops of a product, compiled once a Highway target (see simd-inl.h): a tile of dst
// in registers, and the packing of what it reads.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_BACKEND_CPU_PRODUCT_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_BACKEND_CPU_PRODUCT_TILE_INL_H_
#undef SNUG_BACKEND_CPU_PRODUCT_TILE_INL_H_
#else
#define SNUG_BACKEND_CPU_PRODUCT_TILE_INL_H_
#endif

#include "backend/cpu/simd-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// Sums, a vector or two of b and a broadcast element of a fill the registers: 16 of them, or 32.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int64_t kTileRows = 12;
#else
constexpr int64_t kTileRows = 6;
#endif

/// What a tile reads and writes. Row k of b lies at b + k * b_stride.
struct TileArgs {
  int64_t k = 0;
  const float* a = nullptr;
  int64_t a_row = 0;
  const float* b = nullptr;
  int64_t b_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
};

/// c[i, j] (+)= sum over k of a[i, k] b[k, j] for kRows rows and kVectors vectors of columns.
/// kLoads: c is loaded first. kStrip: a is a strip of (k, kRows), else its rows lie a_row apart.
template <int kRows, int kVectors, bool kLoads, bool kStrip>
void run_tile(const TileArgs& args) {
  const F32 d;
  const int64_t lanes = lanes_f32();
  const int64_t c_stride = args.c_stride;
  float* HWY_RESTRICT c = args.c;
  V32 sums[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v)
      sums[i][v] = kLoads ? hn::LoadU(d, c + i * c_stride + v * lanes) : hn::Zero(d);
  }
  // The tile below is next: its lines arrive while this one is computed.
  for (int i = 0; i < kRows; ++i) __builtin_prefetch(c + (kRows + i) * c_stride, 0, 2);
  const float* HWY_RESTRICT b = args.b;
  const float* HWY_RESTRICT a = args.a;
  const int64_t b_stride = args.b_stride;
  const int64_t a_row = kStrip ? 1 : args.a_row;
  constexpr int64_t kNext = kStrip ? kRows : 1;
  HWY_UNROLL(4)
  for (int64_t k = args.k; k > 0; --k) {
    V32 columns[kVectors];
    for (int v = 0; v < kVectors; ++v) columns[v] = hn::LoadU(d, b + v * lanes);
    for (int i = 0; i < kRows; ++i) {
      const V32 factor = hn::Set(d, a[i * a_row]);
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(factor, columns[v], sums[i][v]);
    }
    b += b_stride;
    a += kNext;
  }
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[i][v], d, c + i * c_stride + v * lanes);
  }
}

using RunTile = void (*)(const TileArgs& args);

/// The tile of so many rows (1 to kTileRows) and vectors: 2, 4 for at most three rows, 8 for one.
template <bool kLoads, bool kStrip>
RunTile find_tile(int64_t rows, int64_t vectors) {
  constexpr RunTile kTwo[] = {
    run_tile<1, 2, kLoads, kStrip>,
    run_tile<2, 2, kLoads, kStrip>,
    run_tile<3, 2, kLoads, kStrip>,
    run_tile<4, 2, kLoads, kStrip>,
    run_tile<5, 2, kLoads, kStrip>,
    run_tile<6, 2, kLoads, kStrip>,
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
    run_tile<7, 2, kLoads, kStrip>,
    run_tile<8, 2, kLoads, kStrip>,
    run_tile<9, 2, kLoads, kStrip>,
    run_tile<10, 2, kLoads, kStrip>,
    run_tile<11, 2, kLoads, kStrip>,
    run_tile<12, 2, kLoads, kStrip>,
#endif
  };
  constexpr RunTile kFour[] = {run_tile<1, 4, kLoads, kStrip>, run_tile<2, 4, kLoads, kStrip>,
                               run_tile<3, 4, kLoads, kStrip>};
  return vectors == 2   ? kTwo[rows - 1]
         : vectors == 4 ? kFour[rows - 1]
                        : run_tile<1, 8, kLoads, kStrip>;
}
inline RunTile find_tile(int64_t rows, int64_t vectors, bool loads, bool is_strip) {
  if (is_strip) {
    return loads ? find_tile<true, true>(rows, vectors) : find_tile<false, true>(rows, vectors);
  }
  return loads ? find_tile<true, false>(rows, vectors) : find_tile<false, false>(rows, vectors);
}

/// dst[k * dst_stride + i] = src[i * src_stride + k] for i in [0, rows) and k in [0, columns).
inline void transpose_into(const float* src, int64_t src_stride, int64_t rows, int64_t columns,
                           float* dst, int64_t dst_stride) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> pairs;
  for (; i + 4 <= rows; i += 4) {
    const float* from = src + i * src_stride;
    float* to = dst + i;
    int64_t k = 0;
    for (; k + 4 <= columns; k += 4) {
      const auto r0 = hn::LoadU(d, from + k);
      const auto r1 = hn::LoadU(d, from + src_stride + k);
      const auto r2 = hn::LoadU(d, from + 2 * src_stride + k);
      const auto r3 = hn::LoadU(d, from + 3 * src_stride + k);
      const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
      const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
      const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
      const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to + k * dst_stride);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d,
                 to + (k + 1) * dst_stride);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d,
                 to + (k + 2) * dst_stride);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d,
                 to + (k + 3) * dst_stride);
    }
    for (; k < columns; ++k) {
      for (int64_t r = 0; r < 4; ++r) to[k * dst_stride + r] = from[r * src_stride + k];
    }
  }
#endif
  for (; i < rows; ++i) {
    for (int64_t k = 0; k < columns; ++k) dst[k * dst_stride + i] = src[i * src_stride + k];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#endif
