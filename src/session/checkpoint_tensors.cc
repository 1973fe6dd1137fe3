// SPDX-License-Identifier: Apache-2.0
#include "session/checkpoint_tensors.h"

#include "snug/error.h"

namespace snug::train {

std::vector<io::TensorToWrite> tensors_of(const Engine& engine, Share share) {
  std::vector<io::TensorToWrite> tensors;
  for (const auto& [name, entry] : engine.plan().residents.entries()) {
    if (name.starts_with(kGradientPrefix)) continue;
    if (share == Share::model ? !is_of_model(entry.kind) : entry.kind != ValueKind::state) continue;
    tensors.push_back({.name = name,
                       .dtype = io::StoredType::f32,
                       .shape = entry.type.shape,
                       .data = engine.read<std::byte>(name).data()});
  }
  return tensors;
}

void read_tensor(const io::SafetensorsFile& file, const io::TensorInfo* found,
                 const io::TensorToWrite& wanted, const Engine& engine) {
  if (found == nullptr)
    throw Error(ErrorCode::bad_data, file.path(), "the checkpoint has no '" + wanted.name + "'");
  if (found->shape != wanted.shape || found->dtype != io::StoredType::f32) {
    throw Error(ErrorCode::bad_data, file.path(),
                "'" + wanted.name + "' has shape " + to_string(found->shape) +
                    ", the model needs " + to_string(wanted.shape),
                "resume with the model configuration that the run began with");
  }
  file.read(found->name, engine.write<std::byte>(wanted.name).data(), found->size_bytes());
}

}  // namespace snug::train
