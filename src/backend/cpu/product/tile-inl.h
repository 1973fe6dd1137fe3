// SPDX-License-Identifier: Apache-2.0
// The innermost loops of a product, compiled once a Highway target (see simd-inl.h): a tile of dst
// in registers.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_BACKEND_CPU_PRODUCT_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_BACKEND_CPU_PRODUCT_TILE_INL_H_
#undef SNUG_BACKEND_CPU_PRODUCT_TILE_INL_H_
#else
#define SNUG_BACKEND_CPU_PRODUCT_TILE_INL_H_
#endif

#include "backend/cpu/pairs-inl.h"
#include "backend/cpu/simd-inl.h"
#include "backend/cpu/transpose-inl.h"
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
  int64_t a_step = 0;  // of a strip: from one k to the next
  const float* b = nullptr;
  int64_t b_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
  const float* next = nullptr;  // what is multiplied later and is not in the second cache yet
  int64_t next_step = 0;        // floats of it for each k
};

/// c[i, j] (+)= sum over k of a[i, k] b[k, j] for kRows rows and kVectors vectors of columns.
/// kLoads: c is loaded first. kStrip: the kRows elements of a for a k lie side by side, a_step
/// behind those of the k before; else its rows lie a_row apart.
/// kFetches: brings `next` nearer.
template <int kRows, int kVectors, bool kLoads, bool kStrip, bool kFetches>
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
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v)
      __builtin_prefetch(c + (kRows + i) * c_stride + v * lanes, 0, 2);
  }
  const float* HWY_RESTRICT b = args.b;
  const float* HWY_RESTRICT a = args.a;
  [[maybe_unused]] const float* next = args.next;
  const int64_t b_stride = args.b_stride;
  const int64_t a_row = kStrip ? 1 : args.a_row;
  const int64_t a_step = kStrip ? args.a_step : 1;
  HWY_UNROLL(4)
  for (int64_t k = args.k; k > 0; --k) {
    if constexpr (kFetches) {
      __builtin_prefetch(next, 0, 2);
      next += args.next_step;
    }
    V32 columns[kVectors];
    for (int v = 0; v < kVectors; ++v) columns[v] = hn::LoadU(d, b + v * lanes);
    for (int i = 0; i < kRows; ++i) {
      const V32 factor = hn::Set(d, a[i * a_row]);
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(factor, columns[v], sums[i][v]);
    }
    b += b_stride;
    a += a_step;
  }
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[i][v], d, c + i * c_stride + v * lanes);
  }
}

using RunTile = void (*)(const TileArgs& args);

/// The tile of so many rows (1 to kTileRows) and vectors: 2, 4 for at most three rows, 8 for one.
template <bool kLoads, bool kStrip, bool kFetches>
RunTile find_tile(int64_t rows, int64_t vectors) {
  constexpr RunTile kTwo[] = {
    run_tile<1, 2, kLoads, kStrip, kFetches>,
    run_tile<2, 2, kLoads, kStrip, kFetches>,
    run_tile<3, 2, kLoads, kStrip, kFetches>,
    run_tile<4, 2, kLoads, kStrip, kFetches>,
    run_tile<5, 2, kLoads, kStrip, kFetches>,
    run_tile<6, 2, kLoads, kStrip, kFetches>,
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
    run_tile<7, 2, kLoads, kStrip, kFetches>,
    run_tile<8, 2, kLoads, kStrip, kFetches>,
    run_tile<9, 2, kLoads, kStrip, kFetches>,
    run_tile<10, 2, kLoads, kStrip, kFetches>,
    run_tile<11, 2, kLoads, kStrip, kFetches>,
    run_tile<12, 2, kLoads, kStrip, kFetches>,
#endif
  };
  constexpr RunTile kFour[] = {run_tile<1, 4, kLoads, kStrip, kFetches>,
                               run_tile<2, 4, kLoads, kStrip, kFetches>,
                               run_tile<3, 4, kLoads, kStrip, kFetches>};
  return vectors == 2   ? kTwo[rows - 1]
         : vectors == 4 ? kFour[rows - 1]
                        : run_tile<1, 8, kLoads, kStrip, kFetches>;
}
inline RunTile find_tile(int64_t rows, int64_t vectors, bool loads, bool is_strip, bool fetches) {
  if (is_strip) {
    return loads ? find_tile<true, true, false>(rows, vectors)
                 : find_tile<false, true, false>(rows, vectors);
  }
  if (fetches) {
    return loads ? find_tile<true, false, true>(rows, vectors)
                 : find_tile<false, false, true>(rows, vectors);
  }
  return loads ? find_tile<true, false, false>(rows, vectors)
               : find_tile<false, false, false>(rows, vectors);
}

/// A tile two vectors wide whose b is (columns, K), b_stride apart, and transposed in registers:
/// with few rows, storing panels would take longer than using them.
template <int kRows, bool kLoads>
void run_tile_across(const TileArgs& args) {
  const Across d;
  constexpr int64_t kLanes = hn::MaxLanes(Across());
  constexpr int64_t kWidth = 2 * hn::MaxLanes(F32());
  constexpr int kGroups = 2;  // rows of more are too many places to read from at a time
  for (int64_t j = 0; j < kWidth; j += kGroups * kLanes) {
    float* const dst = args.c + j;
    VAcross sums[kRows][kGroups];
    for (int i = 0; i < kRows; ++i) {
      for (int g = 0; g < kGroups; ++g)
        sums[i][g] = kLoads ? hn::LoadU(d, dst + i * args.c_stride + g * kLanes) : hn::Zero(d);
    }
    const float* HWY_RESTRICT a = args.a;
    const float* HWY_RESTRICT b = args.b + j * args.b_stride;
    int64_t k = 0;
    for (; k + 4 <= args.k; k += 4) {
      for (int g = 0; g < kGroups; ++g) {
        VAcross columns[4];
        load_across(b + g * kLanes * args.b_stride + k, args.b_stride, columns);
        for (int c = 0; c < 4; ++c) {
          for (int i = 0; i < kRows; ++i)
            sums[i][g] = hn::MulAdd(hn::Set(d, a[i * args.a_row + k + c]), columns[c], sums[i][g]);
        }
      }
    }
    for (; k < args.k; ++k) {
      for (int g = 0; g < kGroups; ++g) {
        HWY_ALIGN float column[kLanes];
        for (int64_t r = 0; r < kLanes; ++r) column[r] = b[(g * kLanes + r) * args.b_stride + k];
        for (int i = 0; i < kRows; ++i)
          sums[i][g] =
              hn::MulAdd(hn::Set(d, a[i * args.a_row + k]), hn::Load(d, column), sums[i][g]);
      }
    }
    for (int i = 0; i < kRows; ++i) {
      for (int g = 0; g < kGroups; ++g)
        hn::StoreU(sums[i][g], d, dst + i * args.c_stride + g * kLanes);
    }
  }
}

/// The tile of 1 to 4 rows whose b is transposed in registers.
inline RunTile find_tile_across(int64_t rows, bool loads) {
  constexpr RunTile kNew[] = {run_tile_across<1, false>, run_tile_across<2, false>,
                              run_tile_across<3, false>, run_tile_across<4, false>};
  constexpr RunTile kOnto[] = {run_tile_across<1, true>, run_tile_across<2, true>,
                               run_tile_across<3, true>, run_tile_across<4, true>};
  return (loads ? kOnto : kNew)[rows - 1];
}

#if SNUG_BF16_TARGET
/// run_tile() of two vectors and strips whose elements are pairs of bf16.
template <int kRows, bool kLoads>
void run_pair_tile(const TileArgs& args) {
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < 2; ++v)
      __builtin_prefetch(args.c + (kRows + i) * args.c_stride + v * lanes_f32(), 0, 2);
  }
  multiply_pairs_tile<kRows, 2, true>({reinterpret_cast<const uint16_t*>(args.a), 2 * args.a_step},
                                      reinterpret_cast<const uint32_t*>(args.b), args.k, args.c,
                                      args.c_stride, kLoads);
}

template <bool kLoads>
RunTile find_pair_tile(int64_t rows) {
  constexpr RunTile kTiles[] = {
      run_pair_tile<1, kLoads>,  run_pair_tile<2, kLoads>,  run_pair_tile<3, kLoads>,
      run_pair_tile<4, kLoads>,  run_pair_tile<5, kLoads>,  run_pair_tile<6, kLoads>,
      run_pair_tile<7, kLoads>,  run_pair_tile<8, kLoads>,  run_pair_tile<9, kLoads>,
      run_pair_tile<10, kLoads>, run_pair_tile<11, kLoads>, run_pair_tile<12, kLoads>};
  return kTiles[rows - 1];
}
#endif

/// The tile of so many rows (1 to kTileRows) whose elements are pairs; null: not with this target.
inline RunTile find_pair_tile(int64_t rows, bool loads) {
#if SNUG_BF16_TARGET
  return loads ? find_pair_tile<true>(rows) : find_pair_tile<false>(rows);
#else
  (void)rows;
  (void)loads;
  return nullptr;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#endif
