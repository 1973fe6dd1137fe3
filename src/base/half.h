// SPDX-License-Identifier: Apache-2.0
// Floating point in 16 bits, as storage: bf16 is the upper half of an f32, f16 is IEEE 754's
// binary16. Rounding is to the nearest, ties to even; NaN stays NaN. The plain version of what
// kernels do with vectors (backend/cpu/rows-inl.h).
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

[[nodiscard]] inline float to_f32(Bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}
[[nodiscard]] inline Bf16 to_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  constexpr uint32_t kQuiet = 0x40;
  if (std::isnan(x)) return {static_cast<uint16_t>((bits >> 16) | kQuiet)};
  return {static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
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
