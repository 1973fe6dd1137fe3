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

uint64_t Permutation::round_value(uint32_t round, uint64_t half, uint64_t bound) const {
  const PhiloxCounter random =
      philox4x32({static_cast<uint32_t>(half), round, static_cast<uint32_t>(stream_),
                  static_cast<uint32_t>(stream_ >> 32)},
                 key_);
  const uint64_t bits = uint64_t{random[0]} << 32 | random[1];
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * bound) >> 64);
}

int64_t Permutation::operator()(int64_t i) const {
  SNUG_CHECK(i >= 0 && i < n_, "permutation index out of range");
  auto value = static_cast<uint64_t>(i);
  do {
    uint64_t left = value / right_bound_;
    uint64_t right = value % right_bound_;
    for (uint32_t round = 0; round < kRounds; round += 2) {
      left += round_value(round, right, left_bound_);
      if (left >= left_bound_) left -= left_bound_;
      right += round_value(round + 1, left, right_bound_);
      if (right >= right_bound_) right -= right_bound_;
    }
    value = left * right_bound_ + right;
  } while (value >= static_cast<uint64_t>(n_));
  return static_cast<int64_t>(value);
}

int64_t Permutation::inverse(int64_t image) const {
  SNUG_CHECK(image >= 0 && image < n_, "permutation index out of range");
  auto value = static_cast<uint64_t>(image);
  do {
    uint64_t left = value / right_bound_;
    uint64_t right = value % right_bound_;
    for (uint32_t round = kRounds; round > 0; round -= 2) {
      const uint64_t from_left = round_value(round - 1, left, right_bound_);
      right = right >= from_left ? right - from_left : right + right_bound_ - from_left;
      const uint64_t from_right = round_value(round - 2, right, left_bound_);
      left = left >= from_right ? left - from_right : left + left_bound_ - from_right;
    }
    value = left * right_bound_ + right;
  } while (value >= static_cast<uint64_t>(n_));
  return static_cast<int64_t>(value);
}

}  // namespace snug::data
