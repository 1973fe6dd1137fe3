// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_tensors.h"

#include "base/check.h"
#include "snug/error.h"

namespace snug::io {
namespace {

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
                        std::span<const std::byte> bytes) {
  return {
      .name = name, .dtype = stored_type(type.dtype), .shape = type.shape, .data = bytes.data()};
}

void read_exactly(const TensorFile& file, const TensorInfo* found, const std::string& name,
                  const TensorType& type, std::span<std::byte> bytes) {
  if (found == nullptr)
    throw Error(ErrorCode::bad_data, file.path(), "the checkpoint has no '" + name + "'");
  const StoredType wanted = stored_type(type.dtype);
  if (found->shape != type.shape || found->dtype != wanted) {
    throw Error(ErrorCode::bad_data, file.path(),
                "'" + name + "' is " + text_of(found->dtype, found->shape) + ", the model needs " +
                    text_of(wanted, type.shape),
                "resume with the model configuration that the run began with");
  }
  file.read(found->name, bytes.data(), found->size_bytes());
}

}  // namespace snug::io
