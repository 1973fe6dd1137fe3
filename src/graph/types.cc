// SPDX-License-Identifier: Apache-2.0
#include "snug/types.h"

#include <algorithm>

#include "base/check.h"
#include "snug/error.h"

namespace snug {

const char* to_string(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::boolean:
      return "bool";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::u8:
      return "u8";
    case DType::bf16x8:
      return "bf16x8";
  }
  return "?";
}

std::optional<DType> dtype_of(std::string_view name) {
  for (const DType dtype : {DType::f32, DType::i32, DType::i64, DType::boolean, DType::bf16,
                            DType::f16, DType::u8, DType::bf16x8}) {
    if (name == to_string(dtype)) return dtype;
  }
  return std::nullopt;
}

int64_t element_bytes(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::i64:
      return 8;
    case DType::boolean:
    case DType::u8:
      return 1;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::bf16x8:
      return 3;
  }
  return 0;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string to_string(const TensorType& type) {
  return to_string(type.dtype) + to_string(type.shape);
}

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (int64_t dim : shape) {
    SNUG_CHECK(dim >= 0, "negative dimension");
    if (__builtin_mul_overflow(count, dim, &count)) {
      throw Error(ErrorCode::shape_mismatch, to_string(shape),
                  "the tensor has more than 2^63 elements");
    }
  }
  return count;
}

int64_t byte_count(const TensorType& type) {
  return element_count(type) * element_bytes(type.dtype);
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const std::string& where) {
  Shape out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t from_a = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t from_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (from_a != from_b && from_a != 1 && from_b != 1) {
      throw Error(ErrorCode::shape_mismatch, where,
                  "shapes " + to_string(a) + " and " + to_string(b) + " do not broadcast");
    }
    out[out.size() - 1 - i] = from_a == 1 ? from_b : from_a;
  }
  return out;
}

Shape strides_of(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

int64_t normalize_axis(int64_t axis, int64_t rank, const std::string& where) {
  if (axis < -rank || axis >= rank) {
    throw Error(
        ErrorCode::shape_mismatch, where,
        "axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank));
  }
  return axis < 0 ? axis + rank : axis;
}

}  // namespace snug
