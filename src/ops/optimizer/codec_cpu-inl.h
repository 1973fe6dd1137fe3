// SPDX-License-Identifier: Apache-2.0
// The adaptive codec (optimizer_codec.h) on vectors, compiled once a Highway target: numbers of
// codes, what a block's scale is chosen by, codes of numbers.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_OPS_OPTIMIZER_CODEC_CPU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_OPS_OPTIMIZER_CODEC_CPU_INL_H_
#undef SNUG_OPS_OPTIMIZER_CODEC_CPU_INL_H_
#else
#define SNUG_OPS_OPTIMIZER_CODEC_CPU_INL_H_
#endif

#include <cmath>
#include <cstring>

#include "backend/cpu/simd-inl.h"
#include "ops/optimizer/optimizer_codec.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

using StateU32 = hn::Rebind<uint32_t, F32>;
using StateU8 = hn::Rebind<uint8_t, F32>;
using VU32 = hn::Vec<StateU32>;

/// The numbers of codes of a block, whose scale is finite and not 0.
template <bool kIsSquare>
class StateDecoder {
 public:
  HWY_INLINE explicit StateDecoder(const AdaptiveFormat& format)
      : shift_(hn::Set(StateU32(), static_cast<uint32_t>(format.shift))),
        add_(hn::Set(StateU32(), format.exponent_bits)),
        first_normal_(hn::Set(StateU32(), 1u << format.fraction_bits)),
        subnormal_(hn::Set(F32(), format.subnormal)) {}

  /// Decodes a vector of codes.
  HWY_INLINE V32 operator()(const uint8_t* codes) const {
    const F32 d;
    const StateU32 du;
    const VU32 code = hn::PromoteTo(du, hn::LoadU(StateU8(), codes));
    const VU32 magnitude = kIsSquare ? code : hn::And(code, hn::Set(du, 0x7Fu));
    const auto is_subnormal = hn::Lt(magnitude, first_normal_);
    VU32 bits = hn::Add(hn::Shl(magnitude, shift_), add_);
    bits = hn::IfThenElse(is_subnormal, hn::Add(bits, hn::Set(du, 1u << 23)), bits);
    V32 size = hn::BitCast(d, bits);
    size = hn::IfThenElse(hn::RebindMask(d, is_subnormal), hn::Sub(size, subnormal_), size);
    if constexpr (kIsSquare) return size;
    const VU32 sign = hn::Set(du, 0x80000000u);
    return hn::BitCast(d, hn::OrAnd(hn::BitCast(du, size), hn::ShiftLeft<24>(code), sign));
  }

 private:
  VU32 shift_, add_, first_normal_;
  V32 subnormal_;
};

/// What the scale of a block is chosen by.
class StateSpread {
 public:
  HWY_INLINE StateSpread()
      : largest_(hn::Zero(StateU32())),
        smallest_(hn::Set(StateU32(), ~0u)),
        sum_(hn::Zero(StateU32())) {}

  HWY_INLINE void add(V32 values) {
    const VU32 bits = hn::BitCast(StateU32(), hn::Abs(values));
    largest_ = hn::Max(largest_, bits);
    smallest_ = hn::Min(smallest_, bits);
    sum_ = hn::Add(sum_, hn::ShiftRight<kSpreadShift>(bits));
  }

  /// `values` are the block's.
  HWY_INLINE float scale(bool is_square, const float* values) const {
    const StateU32 du;
    const uint32_t most = hn::GetLane(hn::MaxOfLanes(du, largest_));
    int64_t count = kStateBlock;
    if (hn::GetLane(hn::MinOfLanes(du, smallest_)) == 0) count -= zeros_of(values);
    const int64_t sum = hn::GetLane(hn::SumOfLanes(du, sum_));
    const int64_t spread = static_cast<int64_t>(most >> kSpreadShift) * count - sum;
    return adaptive_scale(is_square, most, spread, count);
  }

 private:
  HWY_INLINE int64_t zeros_of(const float* values) const {
    const F32 d;
    size_t zeros = 0;
    for (int64_t i = 0; i < kStateBlock; i += lanes_f32())
      zeros += hn::CountTrue(d, hn::Eq(hn::LoadU(d, values + i), hn::Zero(d)));
    return static_cast<int64_t>(zeros);
  }

  VU32 largest_, smallest_, sum_;
};

/// Writes the codes of a block. `dither` is that of its first element.
template <bool kIsSquare>
HWY_INLINE void encode_adaptive_values(float scale, const float* values, uint32_t dither,
                                       uint8_t* codes) {
  const F32 d;
  const StateU32 du;
  if (scale == 0 || !std::isfinite(scale)) {
    std::memset(codes, 0, kStateBlock);
    return;
  }
  const AdaptiveFormat format = adaptive_format(kIsSquare, scale);
  const int64_t lanes = lanes_f32();
  const auto shift = hn::Set(du, static_cast<uint32_t>(format.shift));
  const auto noise_shift = hn::Set(du, static_cast<uint32_t>(32 - format.shift));
  const auto subnormal = hn::Set(d, format.subnormal);
  const auto first = hn::Set(du, format.exponent_bits >> format.shift);
  const auto octave = hn::Set(du, 1u << format.fraction_bits);
  const auto top = hn::Set(du, format.top_code);
  const auto step = hn::Set(du, static_cast<uint32_t>(lanes) * kDitherElement);
  auto noise = hn::Add(hn::Set(du, dither), hn::Mul(hn::Iota(du, 0), hn::Set(du, kDitherElement)));
  for (int64_t i = 0; i < kStateBlock; i += lanes) {
    const V32 x = hn::LoadU(d, values + i);
    const V32 size = kIsSquare ? x : hn::Abs(x);
    const auto is_small = hn::Lt(size, subnormal);
    const VU32 bits = hn::BitCast(du, hn::IfThenElse(is_small, hn::Add(size, subnormal), size));
    const VU32 rounded = hn::Shr(hn::Add(bits, hn::Shr(noise, noise_shift)), shift);
    VU32 code = hn::Sub(rounded, first);
    code = hn::IfThenElse(hn::RebindMask(du, is_small), hn::Sub(code, octave), code);
    code = hn::Min(code, top);
    if constexpr (!kIsSquare) {
      code = hn::OrAnd(code, hn::ShiftRight<24>(hn::BitCast(du, x)), hn::Set(du, 0x80u));
    }
    hn::StoreU(hn::TruncateTo(StateU8(), code), StateU8(), codes + i);
    noise = hn::Add(noise, step);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#endif
