// SPDX-License-Identifier: Apache-2.0
// A keyed pseudo-random permutation of [0, n) in constant memory, and its inverse: an additive
// Feistel network over Philox on a near-square grid a * b >= n, walked until the result is below n
// (almost always at once). Not for secrets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace snug::data {

class Permutation {
 public:
  /// n in [0, 2^62]. Different streams of one seed are unrelated.
  Permutation(int64_t n, uint64_t seed, uint64_t stream);

  [[nodiscard]] int64_t size() const { return n_; }
  /// The image of i, for i in [0, n).
  [[nodiscard]] int64_t operator()(int64_t i) const;
  [[nodiscard]] int64_t inverse(int64_t image) const;
  /// Puts its image in the place of each, or what it is the image of, in less time than one by one.
  void map(std::span<int64_t> values) const;
  void invert(std::span<int64_t> images) const;

 private:
  // N values side by side: each waits only for itself.
  template <size_t N>
  using Lanes = std::array<uint64_t, N>;
  template <size_t N>
  [[nodiscard]] Lanes<N> round_values(uint32_t round, const Lanes<N>& halves, uint64_t bound) const;
  // Once through the network.
  template <size_t N>
  [[nodiscard]] Lanes<N> pass(Lanes<N> values) const;
  template <size_t N>
  [[nodiscard]] Lanes<N> pass_back(Lanes<N> values) const;
  // `once`: through the network, lanes to lanes; again for those that are not below n.
  void walk(std::span<int64_t> values, const auto& once) const;

  int64_t n_;
  uint64_t key_;
  uint64_t stream_;
  uint64_t left_bound_;
  uint64_t right_bound_;
};

/// Streams of the data folder. The top byte keeps purposes apart.
[[nodiscard]] constexpr uint64_t split_stream() { return uint64_t{1} << 56; }
[[nodiscard]] constexpr uint64_t split_stream_of_label(int32_t label) {
  return uint64_t{4} << 56 | static_cast<uint64_t>(label);
}
[[nodiscard]] constexpr uint64_t epoch_stream(int64_t epoch) {
  return uint64_t{2} << 56 | static_cast<uint64_t>(epoch);
}
[[nodiscard]] constexpr uint64_t draw_stream(int64_t epoch) {
  return uint64_t{5} << 56 | static_cast<uint64_t>(epoch);
}
[[nodiscard]] constexpr uint64_t window_stream(int64_t epoch, int64_t window) {
  return uint64_t{3} << 56 | (static_cast<uint64_t>(epoch) << 28 & 0xFFFFFFF0000000u) |
         (static_cast<uint64_t>(window) & 0xFFFFFFFu);
}

}  // namespace snug::data
