// SPDX-License-Identifier: Apache-2.0
// The Feistel network of permutation.h. Any round function gives a bijection, since each round adds
// to one half (modulo its bound) a number that depends on the other half only.
#include "data/permutation.h"

#include "base/check.h"
#include "base/philox.h"

namespace snug::data {
namespace {

// Two rounds per half are enough to look random; four leave a wide margin at a fraction of a
// microsecond.
constexpr uint32_t kRounds = 8;
constexpr size_t kLanes = 8;
// Keeps these draws apart from every other use of the seed as a Philox key.
constexpr uint64_t kKeySalt = 0x64617461'6F726465;

uint64_t ceil_sqrt(uint64_t n) {
  uint64_t root = 0;
  for (uint64_t bit = uint64_t{1} << 31; bit != 0; bit >>= 1) {
    if ((root | bit) * (root | bit) <= n) root |= bit;
  }
  return root * root < n ? root + 1 : root;
}

}  // namespace

Permutation::Permutation(int64_t n, uint64_t seed, uint64_t stream)
    : n_(n), key_(seed ^ kKeySalt), stream_(stream) {
  SNUG_CHECK(n >= 0 && n <= int64_t{1} << 62, "permutation size out of range");
  const auto count = static_cast<uint64_t>(n);
  left_bound_ = count == 0 ? 1 : ceil_sqrt(count);
  right_bound_ = count == 0 ? 1 : (count + left_bound_ - 1) / left_bound_;
}

template <size_t N>
Permutation::Lanes<N> Permutation::round_values(uint32_t round, const Lanes<N>& halves,
                                                uint64_t bound) const {
  PhiloxCounters<N> counters;
  for (size_t i = 0; i < N; ++i) {
    counters[0][i] = static_cast<uint32_t>(halves[i]);
    counters[1][i] = round;
    counters[2][i] = static_cast<uint32_t>(stream_);
    counters[3][i] = static_cast<uint32_t>(stream_ >> 32);
  }
  const PhiloxCounters<N> random = philox4x32<N>(counters, key_);
  Lanes<N> values;
  for (size_t i = 0; i < N; ++i) {
    const uint64_t bits = uint64_t{random[0][i]} << 32 | random[1][i];
    values[i] = static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * bound) >> 64);
  }
  return values;
}

template <size_t N>
Permutation::Lanes<N> Permutation::pass(Lanes<N> values) const {
  Lanes<N> left, right;
  for (size_t i = 0; i < N; ++i) {
    left[i] = values[i] / right_bound_;
    right[i] = values[i] % right_bound_;
  }
  const auto add = [](Lanes<N>& half, const Lanes<N>& more, uint64_t bound) {
    for (size_t i = 0; i < N; ++i) {
      half[i] += more[i];
      if (half[i] >= bound) half[i] -= bound;
    }
  };
  for (uint32_t round = 0; round < kRounds; round += 2) {
    add(left, round_values<N>(round, right, left_bound_), left_bound_);
    add(right, round_values<N>(round + 1, left, right_bound_), right_bound_);
  }
  for (size_t i = 0; i < N; ++i) values[i] = left[i] * right_bound_ + right[i];
  return values;
}

template <size_t N>
Permutation::Lanes<N> Permutation::pass_back(Lanes<N> values) const {
  Lanes<N> left, right;
  for (size_t i = 0; i < N; ++i) {
    left[i] = values[i] / right_bound_;
    right[i] = values[i] % right_bound_;
  }
  const auto subtract = [](Lanes<N>& half, const Lanes<N>& less, uint64_t bound) {
    for (size_t i = 0; i < N; ++i) {
      if (half[i] < less[i]) half[i] += bound;
      half[i] -= less[i];
    }
  };
  for (uint32_t round = kRounds; round > 0; round -= 2) {
    subtract(right, round_values<N>(round - 1, left, right_bound_), right_bound_);
    subtract(left, round_values<N>(round - 2, right, left_bound_), left_bound_);
  }
  for (size_t i = 0; i < N; ++i) values[i] = left[i] * right_bound_ + right[i];
  return values;
}

void Permutation::walk(std::span<int64_t> values, const auto& once) const {
  for (const int64_t each : values)
    SNUG_CHECK(each >= 0 && each < n_, "permutation index out of range");
  const auto walked = [&](uint64_t value) {
    while (value >= static_cast<uint64_t>(n_)) value = once(Lanes<1>{value})[0];
    return static_cast<int64_t>(value);
  };
  for (; values.size() >= kLanes; values = values.subspan(kLanes)) {
    Lanes<kLanes> lanes;
    for (size_t i = 0; i < kLanes; ++i) lanes[i] = static_cast<uint64_t>(values[i]);
    lanes = once(lanes);
    for (size_t i = 0; i < kLanes; ++i) values[i] = walked(lanes[i]);
  }
  for (int64_t& each : values) each = walked(once(Lanes<1>{static_cast<uint64_t>(each)})[0]);
}

void Permutation::map(std::span<int64_t> values) const {
  walk(values, [this](const auto& lanes) { return pass(lanes); });
}

void Permutation::invert(std::span<int64_t> images) const {
  walk(images, [this](const auto& lanes) { return pass_back(lanes); });
}

int64_t Permutation::operator()(int64_t i) const {
  map({&i, 1});
  return i;
}

int64_t Permutation::inverse(int64_t image) const {
  invert({&image, 1});
  return image;
}

}  // namespace snug::data
