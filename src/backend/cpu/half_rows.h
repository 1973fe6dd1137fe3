// SPDX-License-Identifier: Apache-2.0
// Rows in 16 bits as rows of f32 and back, for kernels that compute in f32: a piece at a time, in
// memory that stays in the first-level cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "snug/types.h"

namespace snug {

/// y[i] = x[i] in another type: f32 and one of 16 bits.
using CastRow = void (*)(const std::byte* x, std::byte* y, int64_t n);
/// Null where neither or both are f32.
[[nodiscard]] CastRow find_cast_row(DType from, DType to);

/// Elements of an operand that are stored as f32 or in 16 bits, read and written as f32.
class FloatRows {
 public:
  explicit FloatRows(DType dtype)
      : bytes_(element_bytes(dtype)),
        widen_(find_cast_row(dtype, DType::f32)),
        narrow_(find_cast_row(DType::f32, dtype)) {}

  [[nodiscard]] bool is_half() const { return widen_ != nullptr; }
  [[nodiscard]] int64_t bytes(int64_t n) const { return n * bytes_; }
  /// Elements [at, at + n): where they lie, or a copy in `buffer`.
  [[nodiscard]] const float* read(const std::byte* data, int64_t at, int64_t n,
                                  float* buffer) const {
    if (!is_half()) return reinterpret_cast<const float*>(data) + at;
    widen_(data + at * bytes_, reinterpret_cast<std::byte*>(buffer), n);
    return buffer;
  }
  /// Where elements from `at` on are computed: their own place, or `buffer`.
  [[nodiscard]] float* place(std::byte* data, int64_t at, float* buffer) const {
    return is_half() ? buffer : reinterpret_cast<float*>(data) + at;
  }
  /// Stores what was computed in `buffer`.
  void write(const float* buffer, std::byte* data, int64_t at, int64_t n) const {
    if (is_half()) narrow_(reinterpret_cast<const std::byte*>(buffer), data + at * bytes_, n);
  }

 private:
  int64_t bytes_;
  CastRow widen_;
  CastRow narrow_;
};

}  // namespace snug
