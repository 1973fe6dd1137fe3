// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a pure
// function from a 128-bit counter and a 64-bit key to 128 random bits. No stream, no state, so
// recomputation draws the same numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace snug {

using PhiloxCounter = std::array<uint32_t, 4>;
/// N counters, word by word.
template <size_t N>
using PhiloxCounters = std::array<std::array<uint32_t, N>, 4>;

/// A round waits for the one before it; counters do not wait for each other.
template <size_t N>
[[nodiscard]] constexpr PhiloxCounters<N> philox4x32(PhiloxCounters<N> c, uint64_t key) {
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (size_t i = 0; i < N; ++i) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c[0][i];
      const uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2][i];
      c[0][i] = static_cast<uint32_t>(p1 >> 32) ^ c[1][i] ^ k0;
      c[1][i] = static_cast<uint32_t>(p1);
      c[2][i] = static_cast<uint32_t>(p0 >> 32) ^ c[3][i] ^ k1;
      c[3][i] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

[[nodiscard]] constexpr PhiloxCounter philox4x32(PhiloxCounter c, uint64_t key) {
  const PhiloxCounters<1> one = philox4x32<1>({{{c[0]}, {c[1]}, {c[2]}, {c[3]}}}, key);
  return {one[0][0], one[1][0], one[2][0], one[3][0]};
}

/// A small sequential generator on top, for shuffles and initial weights: state is (key, position).
class PhiloxStream {
 public:
  explicit PhiloxStream(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  [[nodiscard]] uint32_t next() {
    if (lane_ == 4) {
      block_ = philox4x32({static_cast<uint32_t>(position_), static_cast<uint32_t>(position_ >> 32),
                           static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)},
                          seed_);
      ++position_;
      lane_ = 0;
    }
    return block_[static_cast<size_t>(lane_++)];
  }
  /// Uniform in (0, 1).
  [[nodiscard]] double uniform() {
    return (static_cast<double>(next()) + 0.5) * (1.0 / 4294967296.0);
  }
  /// Standard normal (Box-Muller, one of the pair).
  [[nodiscard]] double normal();
  /// Uniform in [0, bound), without modulo bias worth naming (64-bit multiply-shift).
  [[nodiscard]] uint64_t below(uint64_t bound) {
    const uint64_t high = next();
    const uint64_t bits = high << 32 | next();
    return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * bound) >> 64);
  }

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t position_ = 0;
  PhiloxCounter block_{};
  int lane_ = 4;
};

}  // namespace snug
