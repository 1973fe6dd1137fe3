// SPDX-License-Identifier: Apache-2.0
// Optimizer states in 8 bits: a code an element and a scale a block of 256 elements. This is the
// plain version and the definition; optimizer_codec_cpu.cc does the same with vectors.
//
// adaptive (ours). A code is a floating-point number of 8 bits whose exponent has as many bits as
//   the block's spread asks for, so numbers that are far below the block's largest keep the same
//   relative precision. The scale is f32: s = 2^k (1 + f / 4), where 2^k is the power of two of the
//   largest magnitude and f in [0, 3] says that the exponent has E = f + 1 bits, or f + 2 in a mean
//   of squares, which spans twice the octaves and has no sign. With M = 7 - E bits of the fraction
//   (8 - E of squares) and a code's fields e and m:
//     e > 0: 2^(k + e - (2^E - 1)) (1 + m / 2^M)     e = 0: 2^(k + 2 - 2^E) m / 2^M
//   Rounding is dithered by a low-discrepancy sequence over elements and updates (Roberts' R2,
//   2018): a state that moves by less than a step an update moves on the average by what it
//   should, where rounding to the nearest would hold it still.
// bnb. bitsandbytes' dynamic map (Dettmers et al., 2021, section 2.1): the scale is the largest
//   magnitude, a code is the place in a table of the nearest number. As in the package's code for
//   CPUs a number is first rounded to a 32768th, so what is below that of the block's largest is
//   coded as the same small number.
//
// A block of zeros has the scale 0 and codes 0 (bnb: the code of 0), so bytes of zero are states of
// zero in both. A block with a number that is not finite has a scale that is not.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace snug {

enum class StateCodec : uint8_t { adaptive, bnb };
/// "adaptive", "bnb": the attribute `codec` of steps.
[[nodiscard]] std::string_view to_string(StateCodec codec);
[[nodiscard]] std::optional<StateCodec> find_codec(std::string_view name);

inline constexpr int64_t kStateBlock = 256;  // elements
[[nodiscard]] constexpr int64_t state_blocks(int64_t elements) {
  return (elements + kStateBlock - 1) / kStateBlock;
}

/// What a state is to its codec.
struct StateForm {
  StateCodec codec = StateCodec::adaptive;
  bool is_square = false;  // a mean or a sum of squares: never negative
};

// The R2 sequence, as fractions of 2^32.
inline constexpr uint32_t kDitherElement = 0xC13FA9A9u;
inline constexpr uint32_t kDitherUpdate = 0x91E10DA5u;
/// The dither of element 0 of state number `state` of a weight in this update; element i has
/// kDitherElement times i more, wrapping.
[[nodiscard]] constexpr uint32_t state_dither(int64_t update, uint32_t state) {
  return static_cast<uint32_t>(update) * kDitherUpdate + state * 0x80000000u;
}

// What the exponent's bits are chosen by, shared with the vector version.
inline constexpr int kSpreadShift = 16;        // of a number's bits: 7 bits of its fraction stay
inline constexpr int kSmallestExponent = -80;  // of a scale: what a code means is never subnormal
/// The mean number of octaves, in units of 2^-7, by which the numbers of a block that are not zero
/// lie below its largest, from which on one more bit of exponent is taken.
[[nodiscard]] constexpr std::array<int64_t, 3> spread_steps(bool is_square) {
  return is_square ? std::array<int64_t, 3>{256, 512, 1024} : std::array<int64_t, 3>{0, 448, 704};
}
inline constexpr uint32_t kF32Infinity = 0x7F800000u;
inline constexpr int kF32FractionBits = 23;
inline constexpr int kF32Bias = 127;
inline constexpr int kFormatShift = kF32FractionBits - 2;  // of a scale: f
/// The scale of a block: `largest` are the bits of its largest magnitude, `spread` the sum over
/// its `count` numbers that are not zero of (largest >> 16) - (bits >> 16).
[[nodiscard]] inline float adaptive_scale(bool is_square, uint32_t largest, int64_t spread,
                                          int64_t count) {
  if (largest == 0 || largest >= kF32Infinity) return std::bit_cast<float>(largest);
  uint32_t format = 0;
  for (const int64_t step : spread_steps(is_square)) format += spread >= step * count ? 1 : 0;
  const int exponent =
      std::max(static_cast<int>(largest >> kF32FractionBits) - kF32Bias, kSmallestExponent);
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + kF32Bias) << kF32FractionBits |
                              format << kFormatShift);
}

/// How the codes of a block with this scale are read and written.
struct AdaptiveFormat {
  int fraction_bits = 0;       // M
  int shift = 0;               // 23 - M
  uint32_t top_code = 0;       // the largest magnitude
  uint32_t exponent_bits = 0;  // of f32, what is added to a code's bits: 2^(1 - bias) at e = 1
  float subnormal = 0;         // the smallest number with e = 1
};
[[nodiscard]] inline AdaptiveFormat adaptive_format(bool is_square, float scale) {
  // A scale is read with room for its last bits: k and f are all that it holds.
  const uint32_t bits =
      (std::bit_cast<uint32_t>(scale) + (1u << (kFormatShift - 1))) >> kFormatShift;
  const int exponent_bits = static_cast<int>(bits % 4) + (is_square ? 2 : 1);
  AdaptiveFormat format;
  format.fraction_bits = (is_square ? 8 : 7) - exponent_bits;
  format.shift = kF32FractionBits - format.fraction_bits;
  format.top_code = is_square ? 0xFF : 0x7F;
  // e = 2^E - 1 is the scale's own octave.
  const int lowest = static_cast<int>(bits / 4) - ((1 << exponent_bits) - 1);
  format.exponent_bits = static_cast<uint32_t>(lowest) << kF32FractionBits;
  format.subnormal = std::bit_cast<float>(format.exponent_bits + (1u << kF32FractionBits));
  return format;
}

/// The numbers of a block of at most kStateBlock codes.
void decode_states(StateForm form, float scale, std::span<const uint8_t> codes, float* values);
/// Writes the codes and returns the scale. `dither` is that of the block's first element.
[[nodiscard]] float encode_states(StateForm form, std::span<const float> values, uint32_t dither,
                                  uint8_t* codes);

/// bitsandbytes' numbers in rising order: signed, or of what is never negative.
[[nodiscard]] const std::array<float, 256>& dynamic_map(bool is_signed);

}  // namespace snug
