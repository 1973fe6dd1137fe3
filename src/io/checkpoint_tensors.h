// SPDX-License-Identifier: Apache-2.0
// Tensors of a checkpoint, f32, bf16 or codes of 8 bits: straight from the memory that they are
// used in and back, without any conversion.
#pragma once

#include <span>
#include <string>

#include "io/safetensors.h"
#include "snug/types.h"

namespace snug::io {

/// Refers to `bytes`.
[[nodiscard]] TensorToWrite tensor_of(const std::string& name, const TensorType& type,
                                      std::span<const std::byte> bytes);

/// Reads the file's tensor `found` (null: there is none) of what a session calls `name`. Throws
/// Error{bad_data} for one that is absent or of another shape or type.
void read_exactly(const TensorFile& file, const TensorInfo* found, const std::string& name,
                  const TensorType& type, std::span<std::byte> bytes);

}  // namespace snug::io
