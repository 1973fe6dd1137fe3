// SPDX-License-Identifier: Apache-2.0
#include "session/checkpoint_tensors.h"

#include "base/check.h"
#include "snug/error.h"

namespace snug::train {
namespace {

io::StoredType stored_type(DType dtype) {
  if (dtype == DType::u8) return io::StoredType::u8;
  SNUG_CHECK(dtype == DType::f32, std::string("no checkpoint holds ") + to_string(dtype));
  return io::StoredType::f32;
}

}  // namespace

std::vector<io::TensorToWrite> tensors_of(const Engine& engine, Share share) {
  std::vector<io::TensorToWrite> tensors;
  for (const auto& [name, entry] : engine.plan().residents.entries()) {
    if (name.starts_with(kGradientPrefix)) continue;
    if (share == Share::model ? !is_of_model(entry.kind) : entry.kind != ValueKind::state) continue;
    tensors.push_back({.name = name,
                       .dtype = stored_type(entry.type.dtype),
                       .shape = entry.type.shape,
                       .data = engine.read<std::byte>(name).data()});
  }
  return tensors;
}

void read_tensor(const io::SafetensorsFile& file, const io::TensorInfo* found,
                 const io::TensorToWrite& wanted, const Engine& engine) {
  if (found == nullptr)
    throw Error(ErrorCode::bad_data, file.path(), "the checkpoint has no '" + wanted.name + "'");
  if (found->shape != wanted.shape || found->dtype != wanted.dtype) {
    const auto type_text = [](const auto& tensor) {
      return std::string(io::to_string(tensor.dtype)) + to_string(tensor.shape);
    };
    throw Error(
        ErrorCode::bad_data, file.path(),
        "'" + wanted.name + "' is " + type_text(*found) + ", the model needs " + type_text(wanted),
        "resume with the model configuration that the run began with");
  }
  file.read(found->name, engine.write<std::byte>(wanted.name).data(), found->size_bytes());
}

}  // namespace snug::train
