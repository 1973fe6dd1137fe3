// SPDX-License-Identifier: Apache-2.0
// Intrinsics, since Highway has no tiles. Every function here is compiled for a processor with
// them, whatever the rest of the library is compiled for.
#include "backend/cpu/product/amx_kernels.h"

#include <hwy/highway.h>

#include <algorithm>

#if HWY_ARCH_X86

#if defined(__GNUC__) && !defined(__clang__)
// False alarms of GCC in its own intrinsics, wherever those become a part of what is below.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#define SNUG_AMX \
  __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512bf16,prfchw")))
#define SNUG_AMX_INLINE SNUG_AMX __attribute__((always_inline)) inline

namespace snug {
namespace {

constexpr int64_t kTileRows = 16;
constexpr int64_t kTileBytes = 1024;
constexpr int64_t kLineBytes = 64;
constexpr int64_t kTileSums = 256;

// ---- packing ----

SNUG_AMX_INLINE __mmask32 words_below(int64_t count) {
  return count >= 32 ? ~__mmask32{0} : static_cast<__mmask32>((uint32_t{1} << count) - 1);
}

// rows[i] holds the i-th of 16 rows of 32 bits; then the i-th column.
SNUG_AMX_INLINE void transpose_tile(__m512i (&rows)[16]) {
  __m512i t[16];
  HWY_UNROLL(8)
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  // rows[4 q + c]: of the rows 4 q to 4 q + 3, column c of each group of four.
  HWY_UNROLL(4)
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // t[c], t[c + 8]: columns of even and odd groups, of the upper eight rows; t[c + 4], t[c + 12] of
  // the lower ones.
  HWY_UNROLL(4)
  for (int c = 0; c < 4; ++c) {
    t[c] = _mm512_shuffle_i32x4(rows[c], rows[c + 4], 0x88);
    t[c + 4] = _mm512_shuffle_i32x4(rows[c + 8], rows[c + 12], 0x88);
    t[c + 8] = _mm512_shuffle_i32x4(rows[c], rows[c + 4], 0xdd);
    t[c + 12] = _mm512_shuffle_i32x4(rows[c + 8], rows[c + 12], 0xdd);
  }
  HWY_UNROLL(4)
  for (int c = 0; c < 4; ++c) {
    rows[c] = _mm512_shuffle_i32x4(t[c], t[c + 4], 0x88);
    rows[c + 8] = _mm512_shuffle_i32x4(t[c], t[c + 4], 0xdd);
    rows[c + 4] = _mm512_shuffle_i32x4(t[c + 8], t[c + 12], 0x88);
    rows[c + 12] = _mm512_shuffle_i32x4(t[c + 8], t[c + 12], 0xdd);
  }
}

template <bool kTransposes>
SNUG_AMX_INLINE void store_tile(__m512i (&rows)[16], std::byte* tile) {
  if constexpr (kTransposes) transpose_tile(rows);
  HWY_UNROLL(16)
  for (int i = 0; i < 16; ++i) _mm512_store_si512(tile + i * kLineBytes, rows[i]);
}

// One step of a panel whose stored rows lie along K: `count` of them, `depth` elements of each.
template <bool kTransposes>
SNUG_AMX_INLINE void pack_along(const uint16_t* from, int64_t stride, int64_t count, int64_t depth,
                                std::byte* to) {
  const __mmask32 mask = words_below(depth);
  for (int64_t tile = 0; tile < 2; ++tile) {
    const int64_t filled = count - tile * kTileRows;
    __m512i rows[16];
    HWY_UNROLL(16)
    for (int64_t i = 0; i < 16; ++i) {
      rows[i] = i < filled ? _mm512_maskz_loadu_epi16(mask, from + (tile * kTileRows + i) * stride)
                           : _mm512_setzero_si512();
    }
    store_tile<kTransposes>(rows, to + tile * kTileBytes);
  }
}

// The same where they lie across it: `depth` stored rows, `count` elements of each.
template <bool kTransposes>
SNUG_AMX_INLINE void pack_across(const uint16_t* from, int64_t stride, int64_t count, int64_t depth,
                                 std::byte* to) {
  // Word i of two rows beside one another, for the first 16 words and for the others.
  const __m512i words = _mm512_set_epi32(0x2f000f, 0x2e000e, 0x2d000d, 0x2c000c, 0x2b000b, 0x2a000a,
                                         0x290009, 0x280008, 0x270007, 0x260006, 0x250005, 0x240004,
                                         0x230003, 0x220002, 0x210001, 0x200000);
  const __m512i others = _mm512_add_epi16(words, _mm512_set1_epi16(16));
  const __mmask32 mask = words_below(count);
  __m512i first[16];
  __m512i second[16];
  HWY_UNROLL(16)
  for (int64_t i = 0; i < 16; ++i) {
    const uint16_t* const row = from + 2 * i * stride;
    const __m512i even =
        2 * i < depth ? _mm512_maskz_loadu_epi16(mask, row) : _mm512_setzero_si512();
    const __m512i odd =
        2 * i + 1 < depth ? _mm512_maskz_loadu_epi16(mask, row + stride) : _mm512_setzero_si512();
    first[i] = _mm512_permutex2var_epi16(even, words, odd);
    second[i] = _mm512_permutex2var_epi16(even, others, odd);
  }
  store_tile<kTransposes>(first, to);
  store_tile<kTransposes>(second, to + kTileBytes);
}

// A panel of a holds rows along K, one of b rows of pairs across it: what lies otherwise is
// transposed.
template <bool kIsA>
SNUG_AMX void pack_panels(const AmxBlock& block, std::byte* panels, int64_t panel_bytes) {
  if (block.is_along_k) {
    for (int64_t i = 0; i < block.rows; i += kAmxPanelRows, panels += panel_bytes) {
      std::byte* to = panels;
      for (int64_t k = 0; k < block.depth; k += kAmxStep, to += kAmxStepBytes) {
        pack_along<!kIsA>(block.data + i * block.stride + k, block.stride,
                          std::min(block.rows - i, kAmxPanelRows),
                          std::min(block.depth - k, kAmxStep), to);
      }
    }
    return;
  }
  for (int64_t k = 0; k < block.depth; k += kAmxStep, panels += kAmxStepBytes) {
    std::byte* to = panels;
    for (int64_t i = 0; i < block.rows; i += kAmxPanelRows, to += panel_bytes) {
      pack_across<kIsA>(block.data + k * block.stride + i, block.stride,
                        std::min(block.rows - i, kAmxPanelRows),
                        std::min(block.depth - k, kAmxStep), to);
    }
  }
}

// ---- multiplying ----

// What a panel of a and one of b are multiplied from, and what is brought nearer meanwhile, a share
// with every step.
struct PanelPair {
  const std::byte* a;
  const std::byte* b;
  const std::byte* next;  // read soon
  int64_t next_lines;
  std::byte* dst;  // written soon
  int64_t dst_rows;
  int64_t stride_bytes;
};

SNUG_AMX_INLINE void fetch_share(PanelPair& pair) {
  for (int64_t i = 0; i < pair.next_lines; ++i, pair.next += kLineBytes)
    _mm_prefetch(reinterpret_cast<const char*>(pair.next), _MM_HINT_T1);
  for (int64_t i = 0; i < pair.dst_rows; ++i, pair.dst += pair.stride_bytes)
    _mm_prefetch(reinterpret_cast<const char*>(pair.dst), _MM_HINT_T1);
}

SNUG_AMX_INLINE void load_step(PanelPair& pair) {
  // A panel of a is read once while that of b stays in the first cache.
  _tile_stream_loadd(4, pair.a, kLineBytes);
  _tile_loadd(6, pair.b, kLineBytes);
  _tile_loadd(7, pair.b + kTileBytes, kLineBytes);
  _tile_stream_loadd(5, pair.a + kTileBytes, kLineBytes);
  pair.a += kAmxStepBytes;
  pair.b += kAmxStepBytes;
}

// Stores the sums of the tile before and begins those of the next one.
#define SNUG_AMX_TURN(tile, before, next)                                               \
  if ((before) != nullptr) _tile_stored(tile, (before) + (tile)*kTileSums, kLineBytes); \
  if ((next) != nullptr)                                                                \
    _tile_loadd(tile, (next) + (tile)*kTileSums, kLineBytes);                           \
  else                                                                                  \
    _tile_zero(tile)

SNUG_AMX AmxTile tile_at(const AmxMultiply& args, int64_t index) {
  AmxTile tile = args.first;
  tile.sums = args.sums + index * kAmxSums;
  tile.dst += index * kAmxPanelRows * tile.stride_bytes;
  tile.rows = std::min(tile.rows - index * kAmxPanelRows, kAmxPanelRows);
  return tile;
}

SNUG_AMX void multiply_panels(const AmxMultiply& args) {
  // GCC 12's loads of tiles do not say that they read memory.
  asm volatile("" : : : "memory");
  const int64_t next_lines = args.fetches ? kAmxStepBytes / kLineBytes / args.count : 0;
  const std::byte* next = args.b + args.steps * kAmxStepBytes;
  float* before = nullptr;
  for (int64_t i = 0; i < args.count; ++i) {
    PanelPair pair{.a = args.a + i * args.a_bytes,
                   .b = args.b,
                   .next = next,
                   .next_lines = next_lines,
                   .dst = nullptr,
                   .dst_rows = 0,
                   .stride_bytes = args.first.stride_bytes};
    if (args.finish != nullptr) {
      const AmxTile tile = tile_at(args, i);
      pair.dst = tile.dst;
      pair.dst_rows = (tile.rows + args.steps - 1) / args.steps;
    }
    float* const sums = args.sums + i * kAmxSums;
    const float* const loaded = args.loads ? sums : nullptr;
    // Tiles wait for the last of their sums: they are stored only behind the loads of the next
    // step, which would wait for the stores.
    load_step(pair);
    SNUG_AMX_TURN(0, before, loaded);
    _tile_dpbf16ps(0, 4, 6);
    SNUG_AMX_TURN(1, before, loaded);
    _tile_dpbf16ps(1, 4, 7);
    SNUG_AMX_TURN(2, before, loaded);
    _tile_dpbf16ps(2, 5, 6);
    SNUG_AMX_TURN(3, before, loaded);
    _tile_dpbf16ps(3, 5, 7);
    fetch_share(pair);
    if (before != nullptr && args.finish != nullptr) args.finish(tile_at(args, i - 1));
    before = sums;
    for (int64_t step = 1; step < args.steps; ++step) {
      load_step(pair);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
      fetch_share(pair);
    }
    next = pair.next;
  }
  _tile_stored(0, before, kLineBytes);
  _tile_stored(1, before + kTileSums, kLineBytes);
  _tile_stored(2, before + 2 * kTileSums, kLineBytes);
  _tile_stored(3, before + 3 * kTileSums, kLineBytes);
  if (args.finish != nullptr) args.finish(tile_at(args, args.count - 1));
}

// ---- dst ----

// The sums of a row: 16 of one tile and 16 of the tile beside it.
SNUG_AMX_INLINE float* sums_of_row(const AmxTile& tile, int64_t row) {
  return tile.sums + row / kTileRows * 2 * kTileSums + row % kTileRows * kTileRows;
}

SNUG_AMX void begin_f32(const AmxTile& tile) {
  const __mmask32 mask = words_below(tile.columns);
  for (int64_t i = 0; i < tile.rows; ++i) {
    const float* const from = reinterpret_cast<const float*>(tile.dst + i * tile.stride_bytes);
    float* const to = sums_of_row(tile, i);
    _mm512_store_ps(to, _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from));
    _mm512_store_ps(to + kTileSums,
                    _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), from + kTileRows));
  }
}

SNUG_AMX void begin_bf16(const AmxTile& tile) {
  const __mmask32 mask = words_below(tile.columns);
  for (int64_t i = 0; i < tile.rows; ++i) {
    const std::byte* const from = tile.dst + i * tile.stride_bytes;
    float* const to = sums_of_row(tile, i);
    const __m512i row = _mm512_maskz_loadu_epi16(mask, from);
    const __m512i left = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(row));
    const __m512i right = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(row, 1));
    _mm512_store_si512(to, _mm512_slli_epi32(left, 16));
    _mm512_store_si512(to + kTileSums, _mm512_slli_epi32(right, 16));
  }
}

template <bool kIsBf16>
SNUG_AMX void finish(const AmxTile& tile) {
  const __mmask32 mask = words_below(tile.columns);
  const auto left_mask = static_cast<__mmask16>(mask);
  const auto right_mask = static_cast<__mmask16>(mask >> 16);
  const bool adds = tile.bias != nullptr;
  const __m512 left_bias = adds ? _mm512_maskz_loadu_ps(left_mask, tile.bias) : _mm512_setzero_ps();
  const __m512 right_bias =
      adds ? _mm512_maskz_loadu_ps(right_mask, tile.bias + kTileRows) : _mm512_setzero_ps();
  for (int64_t i = 0; i < tile.rows; ++i) {
    const float* const from = sums_of_row(tile, i);
    __m512 left = _mm512_load_ps(from);
    __m512 right = _mm512_load_ps(from + kTileSums);
    if (adds) {
      left = _mm512_add_ps(left, left_bias);
      right = _mm512_add_ps(right, right_bias);
    }
    if constexpr (kIsBf16) {
      std::byte* const to = tile.dst + i * tile.stride_bytes;
      const __m512bh both = _mm512_cvtne2ps_pbh(right, left);
      _mm512_mask_storeu_epi16(to, mask, reinterpret_cast<const __m512i&>(both));
    } else {
      auto* const to = reinterpret_cast<float*>(tile.dst + i * tile.stride_bytes);
      _mm512_mask_storeu_ps(to, left_mask, left);
      _mm512_mask_storeu_ps(to + kTileRows, right_mask, right);
    }
  }
}

}  // namespace

AmxKernels amx_kernels() { return {pack_panels<true>, pack_panels<false>, multiply_panels}; }
AmxStores amx_stores(DType stored) {
  if (stored == DType::bf16) return {begin_bf16, finish<true>};
  return {begin_f32, finish<false>};
}

}  // namespace snug

#undef SNUG_AMX_TURN
#undef SNUG_AMX
#undef SNUG_AMX_INLINE

#else

namespace snug {

AmxKernels amx_kernels() { return {}; }
AmxStores amx_stores(DType) { return {}; }

}  // namespace snug

#endif
