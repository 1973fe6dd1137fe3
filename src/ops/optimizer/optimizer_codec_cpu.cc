// SPDX-License-Identifier: Apache-2.0
// Whole blocks of codes and numbers, for steps that want their states as numbers in memory. Those
// whose elements do not know one another code them in their own loop (step_range-inl.h).
#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/optimizer/codec_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizer/optimizer_codec_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ops/optimizer/codec_cpu-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

template <bool kIsSquare>
HWY_INLINE void decode_block_of(float scale, const uint8_t* codes, float* values) {
  const StateDecoder<kIsSquare> decoder(adaptive_format(kIsSquare, scale));
  for (int64_t i = 0; i < kStateBlock; i += lanes_f32())
    hn::StoreU(decoder(codes + i), F32(), values + i);
}

void decode_adaptive_block(StateForm form, float scale, const uint8_t* codes, float* values) {
  form.is_square ? decode_block_of<true>(scale, codes, values)
                 : decode_block_of<false>(scale, codes, values);
}

float encode_adaptive_block(StateForm form, const float* values, uint32_t dither, uint8_t* codes) {
  StateSpread spread;
  for (int64_t i = 0; i < kStateBlock; i += lanes_f32()) spread.add(hn::LoadU(F32(), values + i));
  const float scale = spread.scale(form.is_square, values);
  form.is_square ? encode_adaptive_values<true>(scale, values, dither, codes)
                 : encode_adaptive_values<false>(scale, values, dither, codes);
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
