// SPDX-License-Identifier: Apache-2.0
// One number from another, for hashes and small random numbers.
#pragma once

#include <cstdint>

namespace snug {

/// A step of SplitMix64 and its finaliser (Steele, Lea, Flood 2014): a well mixed function of a
/// number.
inline constexpr uint64_t kMixStep = 0x9E3779B97F4A7C15u;
[[nodiscard]] constexpr uint64_t mix_bits(uint64_t value) {
  value += kMixStep;
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9u;
  value = (value ^ value >> 27) * 0x94D049BB133111EBu;
  return value ^ value >> 31;
}

}  // namespace snug
