// SPDX-License-Identifier: Apache-2.0
// Random numbers of the searches: small, and the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/mix_bits.h"

namespace snug::plan {

/// SplitMix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0xD6E8FEB86659FD93ull) {}
  uint64_t next() {
    const uint64_t drawn = mix_bits(state_);
    state_ += kMixStep;
    return drawn;
  }
  int32_t below(int32_t limit) {
    return static_cast<int32_t>((next() >> 32) * static_cast<uint64_t>(limit) >> 32);
  }
  template <class Container>
  auto pick(const Container& from) {
    return from[static_cast<size_t>(below(static_cast<int32_t>(from.size())))];
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

}  // namespace snug::plan
