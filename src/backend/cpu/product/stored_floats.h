// SPDX-License-Identifier: Apache-2.0
// What products of tensors hand to a Product: operands in 16 bits, read as their rows are packed,
// and a dst that gets a bias or is stored in 16 bits, tile by tile.
#pragma once

#include "backend/cpu/half_rows.h"
#include "backend/cpu/product/spec.h"

namespace snug {

/// Rows of `width` elements, one behind the other, in f32 or 16 bits.
class StoredRows {
 public:
  StoredRows(DType dtype, const std::byte* data, int64_t width)
      : rows_(dtype), data_(data), width_(width) {}
  /// `this` must outlive the run.
  [[nodiscard]] ProductOperand operand() const;

 private:
  static void read(const void* source, int64_t row, int64_t first, int64_t count,
                   float* out) noexcept;
  FloatRows rows_;
  const std::byte* data_;
  int64_t width_;
};

/// dst of (rows, width) in f32 or 16 bits, and the row that is added to each of its rows (null:
/// none).
class StoredTiles {
 public:
  StoredTiles(DType dtype, std::byte* dst, int64_t width, const float* bias)
      : rows_(dtype), dst_(dst), width_(width), bias_(bias) {}
  /// Sets dst, its stride and the callbacks; `this` must outlive the run.
  void attach(const ProductSpec& spec, ProductLaunch& launch) const;

 private:
  static void begin(const void* context, const ProductTile& tile) noexcept;
  static void finish(const void* context, const ProductTile& tile) noexcept;
  FloatRows rows_;
  std::byte* dst_;
  int64_t width_;
  const float* bias_;
};

}  // namespace snug
