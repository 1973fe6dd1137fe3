// SPDX-License-Identifier: Apache-2.0
// Bytes in use at a row of moments: adding to a range and finding the largest are fast, since
// blocks of moments keep their own sum and maximum. Bytes are doubles (exact below 2^53), which add
// and compare faster than integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace snug::plan {

class RangeBytes {
 public:
  void reset(size_t moments);
  void add(int32_t first, int32_t last, double bytes);  // both included
  void set(int32_t moment, double bytes);
  [[nodiscard]] double at(int32_t moment) const {
    const auto position = static_cast<size_t>(moment);
    return own_[position] + block_add_[position / kBlock];
  }
  [[nodiscard]] double largest() const;
  /// The largest at the moments first .. last, both included.
  [[nodiscard]] double largest(int32_t first, int32_t last) const;
  [[nodiscard]] int32_t where_largest() const;
  /// Sum of what lies above the limit.
  [[nodiscard]] double above(double limit) const;

 private:
  static constexpr size_t kBlock = 32;

  void add_inside(size_t block, size_t first, size_t last, double bytes);
  void measure(size_t block);

  std::vector<double> own_;
  std::vector<double> block_add_;
  std::vector<double> block_max_;  // block_add_ included
};

}  // namespace snug::plan
