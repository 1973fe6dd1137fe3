// SPDX-License-Identifier: Apache-2.0
// Random networks by the public interface: what people do with a batch, a mask, a branch and a
// weight, likely to go wrong where a batch is split or a part runs again. A seed is a network.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "snug/network.h"
#include "snug/session.h"

namespace snug::odd {

/// Draws that are the same everywhere.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 0x7F4A7C15U) {}
  /// 0 to count - 1.
  [[nodiscard]] int64_t below(int64_t count);
  [[nodiscard]] bool once_in(int64_t count) { return below(count) == 0; }

 private:
  uint64_t state_;
};

/// What is known of a network before it is built.
struct Traits {
  uint64_t seed = 0;
  int64_t width = 8;
  bool has_length = false;         // rows are sequences, shorter ones are filled up
  bool is_impure = false;          // has an op that counts its runs
  bool may_count_padding = false;  // has a part that sums over all places of a length
};
[[nodiscard]] Traits traits_of(uint64_t seed);
[[nodiscard]] Network network_of(const Traits& traits);

constexpr int64_t kBatch = 8;
constexpr int64_t kWords = 11;
constexpr int64_t kClasses = 3;
constexpr int64_t kShort = 8;
constexpr int64_t kLong = 16;

/// Rows for any of these networks, of this length where they have one.
class Batch {
 public:
  Batch(const Traits& traits, int64_t rows, int64_t length, uint64_t seed);
  /// The rows of those inputs that the network has.
  [[nodiscard]] Rows rows(const Session& session) const;

 private:
  int64_t count_, length_;
  std::vector<float> x_, weight_, target_;
  std::vector<int32_t> ids_, label_, tags_;
  std::vector<uint8_t> mask_;
};

}  // namespace snug::odd
