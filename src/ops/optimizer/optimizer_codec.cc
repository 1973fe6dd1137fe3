// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/optimizer_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace snug {
namespace {

constexpr uint32_t kMagnitude = 0x7FFFFFFFu;
constexpr uint8_t kSign = 0x80;

void decode_adaptive(bool is_square, float scale, std::span<const uint8_t> codes, float* values) {
  const AdaptiveFormat format = adaptive_format(is_square, scale);
  for (size_t i = 0; i < codes.size(); ++i) {
    const uint32_t code = is_square ? codes[i] : codes[i] & ~kSign;
    // With e = 0 the fraction is read as of e = 1, and its leading 1 is taken away again.
    const bool is_subnormal = code < (1u << format.fraction_bits);
    const uint32_t bits =
        (code << format.shift) + format.exponent_bits + (is_subnormal ? 1u << kF32FractionBits : 0);
    const float size = std::bit_cast<float>(bits) - (is_subnormal ? format.subnormal : 0.0F);
    values[i] = !is_square && (codes[i] & kSign) != 0 ? -size : size;
  }
}

float encode_adaptive(bool is_square, std::span<const float> values, uint32_t dither,
                      uint8_t* codes) {
  uint32_t largest = 0;
  for (const float x : values) largest = std::max(largest, std::bit_cast<uint32_t>(x) & kMagnitude);
  int64_t spread = 0;
  int64_t count = 0;
  for (const float x : values) {
    const uint32_t bits = std::bit_cast<uint32_t>(x) & kMagnitude;
    if (bits == 0) continue;
    spread += (largest >> kSpreadShift) - (bits >> kSpreadShift);
    ++count;
  }
  const float scale = adaptive_scale(is_square, largest, spread, count);
  if (scale == 0 || !std::isfinite(scale)) {
    std::fill_n(codes, values.size(), uint8_t{0});
    return scale;
  }
  const AdaptiveFormat format = adaptive_format(is_square, scale);
  for (size_t i = 0; i < values.size(); ++i) {
    const float size = std::fabs(values[i]);
    const bool is_subnormal = size < format.subnormal;
    const auto bits = std::bit_cast<uint32_t>(is_subnormal ? size + format.subnormal : size);
    const uint32_t rounded = (bits + (dither >> (32 - format.shift))) >> format.shift;
    const uint32_t first =
        (format.exponent_bits + (is_subnormal ? 1u << kF32FractionBits : 0)) >> format.shift;
    const uint32_t code = std::min(rounded - first, format.top_code);
    codes[i] = static_cast<uint8_t>(code | (!is_square && std::signbit(values[i]) ? kSign : 0));
    dither += kDitherElement;
  }
  return scale;
}

std::array<float, 256> make_map(bool is_signed) {
  constexpr int kDecades = 7;
  std::vector<float> numbers = {0, 1};
  for (int decade = 0; decade < kDecades; ++decade) {
    const int pieces = is_signed ? 1 << decade : 1 << (decade + 1);
    // The middles of equal pieces of [0.1, 1], a decade each.
    const auto factor = static_cast<float>(std::pow(10.0, decade - (kDecades - 1)));
    // PyTorch's linspace in f32: from both ends, each sum rounded once.
    const auto begin = static_cast<double>(0.1F);
    const auto step = static_cast<double>((1.0F - 0.1F) / static_cast<float>(pieces));
    const auto edge = [=](int i) {
      return static_cast<float>(i < (pieces + 1) / 2 ? begin + step * i : 1 - step * (pieces - i));
    };
    for (int i = 0; i < pieces; ++i) {
      const float number = factor * ((edge(i) + edge(i + 1)) / 2);
      numbers.push_back(number);
      if (is_signed) numbers.push_back(-number);
    }
  }
  SNUG_CHECK(numbers.size() == 256, "the dynamic map has 256 numbers");
  std::sort(numbers.begin(), numbers.end());
  std::array<float, 256> map{};
  std::copy(numbers.begin(), numbers.end(), map.begin());
  return map;
}

// The package's CPU code looks a number up by the nearest of so many equal steps of [-1, 1].
constexpr size_t kPlaces = 65536;
constexpr auto kLastPlace = static_cast<float>(kPlaces - 1);
using NearestCodes = std::array<uint8_t, kPlaces>;

NearestCodes make_nearest(const std::array<float, 256>& map) {
  NearestCodes codes{};
  size_t code = 0;
  for (size_t i = 0; i < kPlaces; ++i) {
    const float x = -1.0F + static_cast<float>(i) * (2.0F / kLastPlace);
    while (code + 1 < map.size() && map[code + 1] - x < x - map[code]) ++code;
    codes[i] = static_cast<uint8_t>(code);
  }
  return codes;
}

const NearestCodes& nearest_codes(bool is_signed) {
  static const NearestCodes both = make_nearest(dynamic_map(true));
  static const NearestCodes positive = make_nearest(dynamic_map(false));
  return is_signed ? both : positive;
}

uint8_t nearest_code(const NearestCodes& codes, float x) {
  // NOLINTNEXTLINE(bugprone-incorrect-rounding): the package rounds so
  return codes[static_cast<size_t>((x + 1.0F) * 0.5F * kLastPlace + 0.5F)];
}

float encode_bnb(bool is_square, std::span<const float> values, uint8_t* codes) {
  uint32_t largest = 0;
  for (const float x : values) largest = std::max(largest, std::bit_cast<uint32_t>(x) & kMagnitude);
  const auto scale = std::bit_cast<float>(largest);
  const NearestCodes& map = nearest_codes(!is_square);
  if (largest >= kF32Infinity || largest == 0) {
    std::fill_n(codes, values.size(), largest == 0 ? nearest_code(map, 0) : uint8_t{0});
    return scale;
  }
  for (size_t i = 0; i < values.size(); ++i) codes[i] = nearest_code(map, values[i] / scale);
  return scale;
}

}  // namespace

std::string_view to_string(StateCodec codec) {
  return codec == StateCodec::adaptive ? "adaptive" : "bnb";
}

std::optional<StateCodec> find_codec(std::string_view name) {
  for (const StateCodec codec : {StateCodec::adaptive, StateCodec::bnb}) {
    if (name == to_string(codec)) return codec;
  }
  return std::nullopt;
}

void decode_states(StateForm form, float scale, std::span<const uint8_t> codes, float* values) {
  if (scale == 0 || !std::isfinite(scale)) {
    std::fill_n(values, codes.size(), scale);
    return;
  }
  if (form.codec == StateCodec::adaptive)
    return decode_adaptive(form.is_square, scale, codes, values);
  const std::array<float, 256>& map = dynamic_map(!form.is_square);
  for (size_t i = 0; i < codes.size(); ++i) values[i] = map[codes[i]] * scale;
}

float encode_states(StateForm form, std::span<const float> values, uint32_t dither,
                    uint8_t* codes) {
  return form.codec == StateCodec::adaptive ? encode_adaptive(form.is_square, values, dither, codes)
                                            : encode_bnb(form.is_square, values, codes);
}

const std::array<float, 256>& dynamic_map(bool is_signed) {
  static const std::array<float, 256> both = make_map(true);
  static const std::array<float, 256> positive = make_map(false);
  return is_signed ? both : positive;
}

}  // namespace snug
