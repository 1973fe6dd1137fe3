// SPDX-License-Identifier: Apache-2.0
// Floating point in fewer bits than 32, as storage: bf16 is the upper half of an f32, f16 is IEEE
// 754's binary16. Rounding is to the nearest, ties to even; NaN stays NaN. The plain version of
// what kernels do with vectors (backend/cpu/rows-inl.h).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace snug {

struct Bf16 {
  uint16_t bits = 0;
};
struct F16 {
  uint16_t bits = 0;
};
/// The upper 24 bits of an f32, as the bf16 that is nearest to them (ties away from zero) and the
/// difference, in units of their last place. A tensor has all of its bf16 first, then its lows, so
/// its first two thirds are a tensor in bf16.
struct Bf16x8 {
  uint16_t high = 0;
  int8_t low = 0;
};

[[nodiscard]] inline float to_f32(Bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}
[[nodiscard]] inline Bf16 to_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  constexpr uint32_t kQuiet = 0x40;
  if (std::isnan(x)) return {static_cast<uint16_t>((bits >> 16) | kQuiet)};
  return {static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
}

[[nodiscard]] inline float to_f32(Bf16x8 x) {
  const uint32_t low = static_cast<uint32_t>(static_cast<int32_t>(x.low)) << 8;
  return std::bit_cast<float>((static_cast<uint32_t>(x.high) << 16) + low);
}

// Stochastic rounding: what is cut off is the probability of the next place away from zero, so that
// the mean over `word`s (32 random bits) is x itself. What is stored exactly stays as it is.
[[nodiscard]] inline uint32_t bits_to_round(float x) {
  constexpr uint32_t kQuietNan = 0x7FC00000u;
  return std::isnan(x) ? kQuietNan : std::bit_cast<uint32_t>(x);
}
[[nodiscard]] inline Bf16 round_to_bf16(float x, uint32_t word) {
  return {static_cast<uint16_t>((bits_to_round(x) + (word & 0xFFFF)) >> 16)};
}
/// The two parts that hold the upper 24 bits of an f32.
[[nodiscard]] inline Bf16x8 split_bf16x8(uint32_t upper) {
  return {static_cast<uint16_t>((upper + 0x80) >> 8), static_cast<int8_t>(upper & 0xFF)};
}
[[nodiscard]] inline Bf16x8 round_to_bf16x8(float x, uint32_t word) {
  return split_bf16x8((bits_to_round(x) + (word & 0xFF)) >> 8);
}
/// The nearest, ties to even.
[[nodiscard]] inline Bf16x8 to_bf16x8(float x) {
  const uint32_t bits = bits_to_round(x);
  return split_bf16x8((bits + 0x7F + ((bits >> 8) & 1)) >> 8);
}

[[nodiscard]] inline float to_f32(F16 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000) << 16;
  const uint32_t exponent = (x.bits >> 10) & 0x1F;
  const uint32_t fraction = x.bits & 0x3FF;
  if (exponent == 0) {  // zero and subnormal: fraction * 2^-24
    const float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -value : value;
  }
  const uint32_t f32_exponent = exponent == 0x1F ? 0xFF : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (f32_exponent << 23) | (fraction << 13));
}
[[nodiscard]] inline F16 to_f16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  constexpr uint16_t kInfinity = 0x7C00;
  constexpr uint16_t kQuietNan = 0x7E00;
  if (std::isnan(x)) return {static_cast<uint16_t>(sign | kQuietNan)};
  const float size = std::fabs(x);
  constexpr float kFirstTooLarge = 65520;  // half way between the largest and 2^16
  if (size >= kFirstTooLarge) return {static_cast<uint16_t>(sign | kInfinity)};
  constexpr float kSmallestNormal = 0x1p-14F;
  if (size < kSmallestNormal) {
    // In units of 2^-24; the default rounding of the sum is to the nearest even.
    const float units = std::nearbyint(size * 0x1p24F);
    return {static_cast<uint16_t>(sign | static_cast<uint16_t>(units))};
  }
  const uint32_t rounded = std::bit_cast<uint32_t>(size) + 0xFFF + ((bits >> 13) & 1);
  return {static_cast<uint16_t>(sign | ((rounded >> 13) - ((127 - 15) << 10)))};
}

/// For kernels that are written once for every type of storage.
[[nodiscard]] inline float to_f32(float x) { return x; }
template <class T>
[[nodiscard]] T from_f32(float x);
template <>
[[nodiscard]] inline float from_f32<float>(float x) {
  return x;
}
template <>
[[nodiscard]] inline Bf16 from_f32<Bf16>(float x) {
  return to_bf16(x);
}
template <>
[[nodiscard]] inline F16 from_f32<F16>(float x) {
  return to_f16(x);
}

}  // namespace snug
