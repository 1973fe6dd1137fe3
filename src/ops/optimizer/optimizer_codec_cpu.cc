// SPDX-License-Identifier: Apache-2.0
// Three passes over a block that lies in the first cache: its largest number and its spread, then
// codes.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ops/optimizer/codec_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizer/optimizer_codec_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

using StateU32 = hn::Rebind<uint32_t, F32>;
using StateU8 = hn::Rebind<uint8_t, F32>;

void decode_adaptive_block(StateForm form, float scale, const uint8_t* codes, float* values) {
  const F32 d;
  const StateU32 du;
  const AdaptiveFormat format = adaptive_format(form.is_square, scale);
  const auto top = hn::Set(du, format.top_code);
  const auto shift = hn::Set(du, static_cast<uint32_t>(format.shift));
  const auto add = hn::Set(du, format.exponent_bits);
  const auto octave = hn::Set(du, 1u << 23);
  const auto first_normal = hn::Set(du, 1u << format.fraction_bits);
  const auto subnormal = hn::Set(d, format.subnormal);
  const int64_t lanes = lanes_f32();
  for (int64_t i = 0; i < kStateBlock; i += lanes) {
    const auto code = hn::PromoteTo(du, hn::LoadU(StateU8(), codes + i));
    const auto magnitude = hn::And(code, top);
    const auto is_subnormal = hn::Lt(magnitude, first_normal);
    auto bits = hn::Add(hn::Shl(magnitude, shift), add);
    bits = hn::Add(bits, hn::IfThenElseZero(is_subnormal, octave));
    auto size = hn::BitCast(d, bits);
    size = hn::Sub(size, hn::IfThenElseZero(hn::RebindMask(d, is_subnormal), subnormal));
    // The sign of a code, none of squares, whose codes are all magnitude.
    const auto sign = hn::ShiftLeft<24>(hn::AndNot(top, code));
    hn::StoreU(hn::BitCast(d, hn::Or(hn::BitCast(du, size), sign)), d, values + i);
  }
}

HWY_INLINE float scale_of_block(bool is_square, const float* values) {
  const F32 d;
  const StateU32 du;
  const int64_t lanes = lanes_f32();
  auto largest = hn::Zero(du);
  auto sum = hn::Zero(du);
  size_t zeros = 0;
  for (int64_t i = 0; i < kStateBlock; i += lanes) {
    const auto bits = hn::BitCast(du, hn::Abs(hn::LoadU(d, values + i)));
    largest = hn::Max(largest, bits);
    sum = hn::Add(sum, hn::ShiftRight<kSpreadShift>(bits));
    zeros += hn::CountTrue(du, hn::Eq(bits, hn::Zero(du)));
  }
  const uint32_t most = hn::GetLane(hn::MaxOfLanes(du, largest));
  const int64_t count = kStateBlock - static_cast<int64_t>(zeros);
  const int64_t spread = static_cast<int64_t>(most >> kSpreadShift) * count -
                         static_cast<int64_t>(hn::GetLane(hn::SumOfLanes(du, sum)));
  return adaptive_scale(is_square, most, spread, count);
}

float encode_adaptive_block(StateForm form, const float* values, uint32_t dither, uint8_t* codes) {
  const F32 d;
  const StateU32 du;
  const float scale = scale_of_block(form.is_square, values);
  if (scale == 0 || !std::isfinite(scale)) {
    std::memset(codes, 0, kStateBlock);
    return scale;
  }
  const AdaptiveFormat format = adaptive_format(form.is_square, scale);
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
    const auto x = hn::LoadU(d, values + i);
    const auto size = hn::Abs(x);
    const auto is_small = hn::Lt(size, subnormal);
    const auto bits = hn::BitCast(du, hn::Add(size, hn::IfThenElseZero(is_small, subnormal)));
    const auto rounded = hn::Shr(hn::Add(bits, hn::Shr(noise, noise_shift)), shift);
    auto code = hn::Sub(rounded, first);
    code = hn::Sub(code, hn::IfThenElseZero(hn::RebindMask(du, is_small), octave));
    code = hn::Min(code, top);
    const auto sign = hn::AndNot(top, hn::ShiftRight<24>(hn::BitCast(du, x)));
    hn::StoreU(hn::TruncateTo(StateU8(), hn::Or(code, sign)), StateU8(), codes + i);
    noise = hn::Add(noise, step);
  }
  return scale;
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace snug {

HWY_EXPORT(decode_adaptive_block);
HWY_EXPORT(encode_adaptive_block);

namespace {

// The table of bnb is read as the plain version does it.
void decode_bnb_block(StateForm form, float scale, const uint8_t* codes, float* values) {
  decode_states(form, scale, {codes, static_cast<size_t>(kStateBlock)}, values);
}
float encode_bnb_block(StateForm form, const float* values, uint32_t dither, uint8_t* codes) {
  return encode_states(form, {values, static_cast<size_t>(kStateBlock)}, dither, codes);
}

}  // namespace

StateCoder state_coder(StateForm form) {
  if (form.codec == StateCodec::bnb) return {form, decode_bnb_block, encode_bnb_block};
  return {form, HWY_DYNAMIC_DISPATCH(decode_adaptive_block),
          HWY_DYNAMIC_DISPATCH(encode_adaptive_block)};
}

void StateCoder::decode(float scale, const uint8_t* codes, int64_t count, float* values) const {
  if (scale == 0 || !std::isfinite(scale)) {
    std::fill_n(values, kStateBlock, scale);
    return;
  }
  if (count == kStateBlock) return decode_block(form, scale, codes, values);
  std::array<uint8_t, kStateBlock> padded{};
  std::copy_n(codes, count, padded.begin());
  decode_block(form, scale, padded.data(), values);
}

float StateCoder::encode(float* values, int64_t count, uint32_t dither, uint8_t* codes) const {
  if (count == kStateBlock) return encode_block(form, values, dither, codes);
  std::fill(values + count, values + kStateBlock, 0.0F);
  std::array<uint8_t, kStateBlock> padded{};
  const float scale = encode_block(form, values, dither, padded.data());
  std::copy_n(padded.begin(), count, codes);
  return scale;
}

}  // namespace snug
#endif
