// SPDX-License-Identifier: Apache-2.0
// Random numbers of the searches: small, and the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace snug::plan {

/// SplitMix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0xD6E8FEB86659FD93ull) {}
  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ull;
    uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
    return mixed ^ (mixed >> 31);
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
