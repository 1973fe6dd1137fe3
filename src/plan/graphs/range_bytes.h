// SPDX-License-Identifier: Apache-2.0
// Bytes in use at a row of moments: adding to a range and finding the largest are fast, since
// blocks of moments keep their own sum and maximum. Bytes are doubles (exact below 2^53), which add
// and compare faster than integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace snug::plan {

/// Ranges are added, moments are read.
class RangeSum {
 public:
  void reset(size_t moments);
  void add(int32_t first, int32_t last, double bytes);  // both included
  [[nodiscard]] double at(int32_t moment) const {
    const auto position = static_cast<size_t>(moment);
    return own_[position] + block_add_[position / kBlock];
  }

 protected:
  static constexpr size_t kBlock = 32;

  void add_inside(size_t first, size_t last, double bytes);

  std::vector<double> own_;
  std::vector<double> block_add_;
};

/// The largest of the moments as well.
class RangeBytes : private RangeSum {
 public:
  using RangeSum::at;

  void reset(size_t moments);
  void add(int32_t first, int32_t last, double bytes);  // both included
  void set(int32_t moment, double bytes);
  [[nodiscard]] double largest() const;
  /// The largest at the moments first .. last, both included.
  [[nodiscard]] double largest(int32_t first, int32_t last) const;
  [[nodiscard]] int32_t where_largest() const;
  /// Sum of what lies above the limit.
  [[nodiscard]] double above(double limit) const;

 private:
  void forget(size_t block);
  void measure() const;

  // Block_add_ included. Measured when they are asked for: a change that is taken back touches the
  // same blocks again.
  mutable std::vector<double> block_max_;
  mutable std::vector<bool> is_forgotten_;
  mutable std::vector<size_t> forgotten_;
};

}  // namespace snug::plan
