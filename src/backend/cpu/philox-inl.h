// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 of base/philox.h over vectors of consecutive counters, and the dropout factors made
// from it; compiled once a Highway target (see simd-inl.h). Same bits as the scalar function.
//
// One counter is one 64-bit lane, of which the low half counts: the widening multiplication reads
// low halves only, so what it leaves in the high halves needs no clearing. Only the first counter
// word varies along a row; what depends on the other three and the key only is computed once a row
// (the first two rounds are half constant).

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_BACKEND_CPU_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_BACKEND_CPU_PHILOX_INL_H_
#undef SNUG_BACKEND_CPU_PHILOX_INL_H_
#else
#define SNUG_BACKEND_CPU_PHILOX_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "backend/cpu/simd-inl.h"
#include "base/philox.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

/// What survives of dropout: words from `threshold` on, times `scale`.
struct DropoutRule {
  uint32_t threshold = 0;
  float scale = 1;
};

#if HWY_TARGET == HWY_SCALAR

struct PhiloxRow {
  uint64_t seed;
  uint32_t slot;
  uint32_t update;
  uint32_t ordinal;
};
HWY_INLINE PhiloxRow philox_row(uint64_t seed, uint32_t slot, uint32_t update, uint32_t ordinal) {
  return {seed, slot, update, ordinal};
}

/// As below.
HWY_INLINE void dropout_row(const PhiloxRow& row, DropoutRule rule, uint64_t counter,
                            const float* src, float* dst, int64_t n) {
  for (int64_t i = 0; i < n; i += 4) {
    const auto word = static_cast<uint32_t>(counter + static_cast<uint64_t>(i / 4));
    const PhiloxCounter words = philox4x32({word, row.slot, row.update, row.ordinal}, row.seed);
    for (int64_t j = i; j < n && j < i + 4; ++j) {
      dst[j] = words[static_cast<size_t>(j - i)] < rule.threshold ? 0.0F : src[j] * rule.scale;
    }
  }
}

#else

using U32 = hn::ScalableTag<uint32_t>;
using U64 = hn::ScalableTag<uint64_t>;

constexpr uint64_t kPhiloxMultiplier0 = 0xD2511F53U;
constexpr uint64_t kPhiloxMultiplier1 = 0xCD9E8D57U;

/// Everything but the first counter word. Values are 32-bit, held as lanes are.
struct PhiloxRow {
  uint64_t key0[10];
  uint64_t key1[10];
  uint64_t round0_word2;
  uint64_t round1_word0;
  uint64_t round1_word2;
  uint64_t round2_word2;
};

HWY_INLINE PhiloxRow philox_row(uint64_t seed, uint32_t slot, uint32_t update, uint32_t ordinal) {
  PhiloxRow row;
  auto key0 = static_cast<uint32_t>(seed);
  auto key1 = static_cast<uint32_t>(seed >> 32);
  for (size_t round = 0; round < 10; ++round) {
    row.key0[round] = key0;
    row.key1[round] = key1;
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  const uint64_t product1 = kPhiloxMultiplier1 * update;
  const uint64_t word0 = (product1 >> 32) ^ slot ^ row.key0[0];
  const uint64_t product0 = kPhiloxMultiplier0 * word0;
  row.round0_word2 = ordinal ^ row.key1[0];
  row.round1_word0 = (product1 & 0xFFFFFFFFU) ^ row.key0[1];
  row.round1_word2 = (product0 >> 32) ^ row.key1[1];
  row.round2_word2 = (product0 & 0xFFFFFFFFU) ^ row.key1[2];
  return row;
}

/// The four words of one counter a lane, each in the low half; what is in the high halves is no
/// part of them.
struct PhiloxLanes {
  hn::Vec<U64> word0;
  hn::Vec<U64> word1;
  hn::Vec<U64> word2;
  hn::Vec<U64> word3;
};

HWY_INLINE PhiloxLanes philox_counters(const PhiloxRow& row, hn::Vec<U64> counters) {
  const U64 d;
  const U32 du;
  const hn::Vec<U32> multiplier0 = hn::BitCast(du, hn::Set(d, kPhiloxMultiplier0));
  const hn::Vec<U32> multiplier1 = hn::BitCast(du, hn::Set(d, kPhiloxMultiplier1));
  // Round 0: only word 0 varies.
  hn::Vec<U64> product0 = hn::MulEven(hn::BitCast(du, counters), multiplier0);
  hn::Vec<U64> word2 = hn::Xor(hn::ShiftRight<32>(product0), hn::Set(d, row.round0_word2));
  // Round 1: words 2 and 3 vary.
  hn::Vec<U64> product1 = hn::MulEven(hn::BitCast(du, word2), multiplier1);
  hn::Vec<U64> word0 = hn::Xor(hn::ShiftRight<32>(product1), hn::Set(d, row.round1_word0));
  word2 = hn::Xor(product0, hn::Set(d, row.round1_word2));
  hn::Vec<U64> word1 = product1;
  // Round 2: word 3 is constant.
  product0 = hn::MulEven(hn::BitCast(du, word0), multiplier0);
  product1 = hn::MulEven(hn::BitCast(du, word2), multiplier1);
  word0 = hn::Xor3(hn::ShiftRight<32>(product1), word1, hn::Set(d, row.key0[2]));
  word2 = hn::Xor(hn::ShiftRight<32>(product0), hn::Set(d, row.round2_word2));
  word1 = product1;
  hn::Vec<U64> word3 = product0;
  HWY_UNROLL(7)
  for (size_t round = 3; round < 10; ++round) {
    product0 = hn::MulEven(hn::BitCast(du, word0), multiplier0);
    product1 = hn::MulEven(hn::BitCast(du, word2), multiplier1);
    word0 = hn::Xor3(hn::ShiftRight<32>(product1), word1, hn::Set(d, row.key0[round]));
    word2 = hn::Xor3(hn::ShiftRight<32>(product0), word3, hn::Set(d, row.key1[round]));
    word1 = product1;
    word3 = product0;
  }
  return {word0, word1, word2, word3};
}

/// The words of lanes_f32() / 2 consecutive counters, in order: `first`, then `second`.
struct PhiloxWords {
  hn::Vec<U32> first;
  hn::Vec<U32> second;
};

/// Lanes that philox_words() adds to a counter: even lanes hold the first half of the counters, odd
/// lanes the second.
HWY_INLINE hn::Vec<U64> philox_lanes() {
  const U64 d;
  const size_t half = hn::Lanes(d) / 2;
  HWY_ALIGN uint64_t lanes[hn::MaxLanes(U64())];
  for (size_t i = 0; i < half; ++i) {
    lanes[2 * i] = i;
    lanes[2 * i + 1] = half + i;
  }
  return hn::Load(d, lanes);
}

HWY_INLINE PhiloxWords philox_words(const PhiloxRow& row, hn::Vec<U64> lanes, uint64_t counter) {
  const U64 d;
  const U32 du;
  const PhiloxLanes all = philox_counters(row, hn::Add(hn::Set(d, counter), lanes));
  // Two words a lane, then both pairs of a counter side by side.
  const hn::Vec<U64> low_half = hn::Set(d, 0xFFFFFFFFU);
  const hn::Vec<U64> words01 = hn::Or(hn::And(all.word0, low_half), hn::ShiftLeft<32>(all.word1));
  const hn::Vec<U64> words23 = hn::Or(hn::And(all.word2, low_half), hn::ShiftLeft<32>(all.word3));
  return {hn::BitCast(du, hn::InterleaveLower(d, words01, words23)),
          hn::BitCast(du, hn::InterleaveUpper(d, words01, words23))};
}

/// dst[i] = src[i] * scale or 0 for the elements 4 * counter + i of a row. dst may be src.
HWY_INLINE void dropout_row(const PhiloxRow& row, DropoutRule rule, uint64_t counter,
                            const float* src, float* dst, int64_t n) {
  const F32 d;
  const U32 du;
  const int64_t lanes = lanes_f32();
  const hn::Vec<U64> offsets = philox_lanes();
  const hn::Vec<U32> threshold = hn::Set(du, rule.threshold);
  const V32 scale = hn::Set(d, rule.scale);
  const auto apply = [&](hn::Vec<U32> words, V32 x) HWY_ATTR {
    return hn::IfThenZeroElse(hn::RebindMask(d, hn::Lt(words, threshold)), hn::Mul(x, scale));
  };
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const PhiloxWords words = philox_words(row, offsets, counter + static_cast<uint64_t>(i / 4));
    hn::StoreU(apply(words.first, hn::LoadU(d, src + i)), d, dst + i);
    hn::StoreU(apply(words.second, hn::LoadU(d, src + i + lanes)), d, dst + i + lanes);
  }
  if (i == n) return;
  const PhiloxWords words = philox_words(row, offsets, counter + static_cast<uint64_t>(i / 4));
  if (i + lanes <= n) {
    hn::StoreU(apply(words.first, hn::LoadU(d, src + i)), d, dst + i);
    i += lanes;
    if (i < n) store_tail(apply(words.second, load_tail(d, src + i, n - i)), d, dst + i, n - i);
  } else {
    store_tail(apply(words.first, load_tail(d, src + i, n - i)), d, dst + i, n - i);
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#endif
