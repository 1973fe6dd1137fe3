// SPDX-License-Identifier: Apache-2.0
// The loops are plain and made into vectors by the compiler, once a Highway target; the plain
// versions of a number are in base/half.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/weight_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/philox-inl.h"
#include "backend/cpu/weight_rows.h"
#include "base/half.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

constexpr int64_t kWordsAtOnce = 256;  // a multiple of every vector's counters
// Dropout draws under the seed itself.
constexpr uint64_t kRoundingSeed = 0x5EED0F0DDB175AFEu;

// The words of `blocks` counters of four from `first` on; writes up to kWordsAtOnce.
void draw_words(RoundingKey key, uint64_t first, int64_t blocks, uint32_t* words) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t b = 0; b < blocks; ++b) {
    const PhiloxCounter four = philox4x32(
        {static_cast<uint32_t>(first + static_cast<uint64_t>(b)), 0, key.update, key.stream},
        key.seed ^ kRoundingSeed);
    for (size_t i = 0; i < 4; ++i) words[4 * b + static_cast<int64_t>(i)] = four[i];
  }
#else
  const PhiloxRow row = philox_row(key.seed ^ kRoundingSeed, 0, key.update, key.stream);
  const hn::Vec<U64> lanes = philox_lanes();
  const U32 d;
  const int64_t step = lanes_f32();
  for (int64_t i = 0; i < 4 * blocks; i += 2 * step) {
    const PhiloxWords drawn = philox_words(row, lanes, first + static_cast<uint64_t>(i / 4));
    hn::StoreU(drawn.first, d, words + i);
    hn::StoreU(drawn.second, d, words + i + step);
  }
#endif
}

// Calls use(i, n, words) for pieces [i, i + n) of n elements from `at` on; words[0] is that of the
// piece's first element.
template <class Use>
HWY_INLINE void for_words(RoundingKey key, int64_t at, int64_t n, Use use) {
  HWY_ALIGN uint32_t words[kWordsAtOnce];
  for (int64_t i = 0; i < n;) {
    const int64_t skipped = (at + i) % 4;
    const int64_t piece = n - i < kWordsAtOnce - skipped ? n - i : kWordsAtOnce - skipped;
    draw_words(key, static_cast<uint64_t>((at + i) / 4), (skipped + piece + 3) / 4, words);
    use(i, piece, words + skipped);
    i += piece;
  }
}

void round_bf16(const float* x, RoundingKey key, int64_t, int64_t at, int64_t n, std::byte* y) {
  auto* const high = reinterpret_cast<uint16_t*>(y) + at;
  for_words(key, at, n, [&](int64_t begin, int64_t piece, const uint32_t* words) {
    for (int64_t i = 0; i < piece; ++i)
      high[begin + i] = round_to_bf16(x[begin + i], words[i]).bits;
  });
}
void round_bf16x8(const float* x, RoundingKey key, int64_t count, int64_t at, int64_t n,
                  std::byte* y) {
  auto* const high = reinterpret_cast<uint16_t*>(y) + at;
  auto* const low = reinterpret_cast<int8_t*>(y + 2 * count) + at;
  for_words(key, at, n, [&](int64_t begin, int64_t piece, const uint32_t* words) {
    for (int64_t i = 0; i < piece; ++i) {
      const Bf16x8 both = round_to_bf16x8(x[begin + i], words[i]);
      high[begin + i] = both.high;
      low[begin + i] = both.low;
    }
  });
}
void read_bf16(const std::byte* x, int64_t, int64_t at, int64_t n, float* y) {
  const auto* const high = reinterpret_cast<const uint16_t*>(x) + at;
  for (int64_t i = 0; i < n; ++i) y[i] = to_f32(Bf16{high[i]});
}
void read_bf16x8(const std::byte* x, int64_t count, int64_t at, int64_t n, float* y) {
  const auto* const high = reinterpret_cast<const uint16_t*>(x) + at;
  const auto* const low = reinterpret_cast<const int8_t*>(x + 2 * count) + at;
  for (int64_t i = 0; i < n; ++i) y[i] = to_f32(Bf16x8{high[i], low[i]});
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/check.h"

namespace snug {

HWY_EXPORT(round_bf16);
HWY_EXPORT(round_bf16x8);
HWY_EXPORT(read_bf16);
HWY_EXPORT(read_bf16x8);

WeightRows::WeightRows(const TensorType& type) : count_(element_count(type)) {
  if (type.dtype == DType::f32) return;
  const bool has_low = type.dtype == DType::bf16x8;
  SNUG_CHECK(has_low || type.dtype == DType::bf16, to_string(type));
  read_ = has_low ? HWY_DYNAMIC_DISPATCH(read_bf16x8) : HWY_DYNAMIC_DISPATCH(read_bf16);
  round_ = has_low ? HWY_DYNAMIC_DISPATCH(round_bf16x8) : HWY_DYNAMIC_DISPATCH(round_bf16);
}

}  // namespace snug
#endif
