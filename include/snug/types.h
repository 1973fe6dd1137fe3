// SPDX-License-Identifier: Apache-2.0
// Element types and shapes of the values in a graph. Every type is known when the graph is built.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "snug/shape.h"

namespace snug {

/// How the elements of a tensor are stored. boolean is one byte, 0 or 1. i64 carries keys of random
/// numbers (seed, update, slot), not data. bf16 and f16 are stored so; sums over them are f32. u8
/// are codes, whose meaning their op knows. bf16x8 is how a weight may be stored: 24 bits, those of
/// a bf16 and 8 more (base/half.h).
enum class DType : uint8_t { f32, i32, i64, boolean, bf16, f16, u8, bf16x8 };

/// What gradients flow through.
[[nodiscard]] inline bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16 ||
         dtype == DType::bf16x8;
}
/// bf16 or f16.
[[nodiscard]] inline bool is_half(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16;
}

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;  // row-major, dense
  bool operator==(const TensorType&) const = default;
};

[[nodiscard]] const char* to_string(DType dtype);
/// The type of this name, if there is one.
[[nodiscard]] std::optional<DType> dtype_of(std::string_view name);
[[nodiscard]] int64_t element_bytes(DType dtype);
/// "f32[8,128]"; a scalar is "f32[]".
[[nodiscard]] std::string to_string(const TensorType& type);
[[nodiscard]] std::string to_string(const Shape& shape);
[[nodiscard]] inline std::string to_string(const std::vector<int64_t>& shape) {
  return to_string(Shape(shape));
}

[[nodiscard]] int64_t element_count(const Shape& shape);
[[nodiscard]] inline int64_t element_count(const TensorType& type) {
  return element_count(type.shape);
}
[[nodiscard]] int64_t byte_count(const TensorType& type);

/// Numpy's broadcasting of two shapes; throws Error{shape_mismatch} naming `where`.
[[nodiscard]] Shape broadcast_shapes(const Shape& a, const Shape& b, const std::string& where);
/// Row-major strides in elements.
[[nodiscard]] Shape strides_of(const Shape& shape);
/// Maps a possibly negative axis into [0, rank); throws Error{shape_mismatch} naming `where`.
[[nodiscard]] int64_t normalize_axis(int64_t axis, int64_t rank, const std::string& where);

}  // namespace snug
