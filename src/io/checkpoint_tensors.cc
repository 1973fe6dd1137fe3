// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_tensors.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "snug/error.h"

namespace snug::io {
namespace {

/// The rows of a tensor that is read or written a few of them at a time.
struct RowBlocks {
  int64_t count = 0;
  int64_t columns = 0;
  int64_t at_once = 0;

  explicit RowBlocks(std::span<const int64_t> shape) : count(shape.empty() ? 1 : shape[0]) {
    constexpr int64_t kBufferElements = 1 << 16;
    columns = 1;
    for (size_t i = 1; i < shape.size(); ++i) columns *= shape[i];
    at_once = columns == 0 ? count : std::max<int64_t>(1, kBufferElements / columns);
  }
  // Calls use(first, values), with room for whole rows.
  template <class Use>
  void for_each(Use use) const {
    std::vector<float> values;
    for (int64_t first = 0; first < count; first += at_once) {
      values.resize(static_cast<size_t>(std::min(at_once, count - first) * columns));
      use(first, std::span(values));
    }
  }
};

StoredType stored_type(DType dtype) {
  if (dtype == DType::bf16) return StoredType::bf16;
  SNUG_CHECK(dtype == DType::f32 || dtype == DType::u8, "no checkpoint holds this type");
  return dtype == DType::u8 ? StoredType::u8 : StoredType::f32;
}

std::string text_of(StoredType type, const Shape& shape) {
  std::string text = std::string(to_string(type)) + "[";
  const char* separator = "";
  for (const int64_t size : shape) {
    text += separator + std::to_string(size);
    separator = ",";
  }
  return text + "]";
}

}  // namespace

TensorToWrite tensor_of(const std::string& name, const TensorType& type,
                        std::function<void(const TensorToWrite::Put& put)> read) {
  return {
      .name = name, .dtype = stored_type(type.dtype), .shape = type.shape, .make = std::move(read)};
}

void read_exactly(const TensorFile& file, const StoredTensor* found, const std::string& name,
                  const TensorType& type, const std::function<void(const FillBytes& fill)>& write) {
  if (found == nullptr)
    throw Error(ErrorCode::bad_data, file.path(), "the checkpoint has no '" + name + "'");
  const StoredType wanted = stored_type(type.dtype);
  if (found->shape != type.shape || found->dtype != wanted) {
    throw Error(ErrorCode::bad_data, file.path(),
                "'" + name + "' is " + text_of(found->dtype, found->shape) + ", the model needs " +
                    text_of(wanted, type.shape),
                "resume with the model configuration that the run began with");
  }
  const int64_t size = bytes_of(wanted);
  write([&](int64_t first, std::span<std::byte> bytes) {
    file.read(*found, first / size, std::ssize(bytes) / size, bytes.data());
  });
}

TensorToWrite tensor_of_rows(const std::string& name, const Shape& shape,
                             std::function<void(int64_t row, std::span<float> values)> read) {
  return {.name = name,
          .dtype = StoredType::f32,
          .shape = shape,
          .make = [rows = RowBlocks(shape), read = std::move(read)](const TensorToWrite::Put& put) {
            rows.for_each([&](int64_t first, std::span<float> values) {
              read(first, values);
              put(std::as_bytes(std::span<const float>(values)));
            });
          }};
}

void for_rows(const TensorFile& file, const StoredTensor& tensor,
              const std::function<void(int64_t row, std::span<const float>)>& take) {
  const RowBlocks rows(tensor.shape);
  rows.for_each([&](int64_t first, std::span<float> values) {
    file.read_f32(tensor.name, first * rows.columns, values);
    take(first, values);
  });
}

}  // namespace snug::io
