// SPDX-License-Identifier: Apache-2.0
// The tensors of a checkpoint's two files, straight from the engine's memory and back.
#pragma once

#include <string>
#include <vector>

#include "io/safetensors.h"
#include "session/engine.h"

namespace snug::train {

/// The network's own tensors (weights and buffers), or the optimizer's states.
enum class Share : uint8_t { model, optimizer };
/// By their names in the engine. Accumulated gradients are zero between two updates: nothing to
/// keep.
[[nodiscard]] std::vector<io::TensorToWrite> tensors_of(const Engine& engine, Share share);

/// Reads `wanted` from the file's tensor `found` (null: there is none). Throws Error{bad_data} for
/// one that is absent or of another shape or type.
void read_tensor(const io::SafetensorsFile& file, const io::TensorInfo* found,
                 const io::TensorToWrite& wanted, const Engine& engine);

}  // namespace snug::train
