// SPDX-License-Identifier: Apache-2.0
// Tensors of a checkpoint, f32, bf16 or codes of 8 bits: from the memory that they are used in and
// back, without any conversion; or in f32, a few rows at a time, where memory has them in another
// form.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "io/safetensors.h"
#include "snug/types.h"

namespace snug::io {

/// A tensor whose bytes `read` puts in order, part by part, when its turn has come.
[[nodiscard]] TensorToWrite tensor_of(const std::string& name, const TensorType& type,
                                      std::function<void(const TensorToWrite::Put& put)> read);

/// Writes bytes of a tensor from this one on, whole elements.
using FillBytes = std::function<void(int64_t first, std::span<std::byte> bytes)>;
/// Reads the file's tensor `found` (null: there is none) of what a session calls `name`: `write`
/// calls what it is given for all bytes of its own. Throws Error{bad_data} for a tensor that is
/// absent or of another shape or type.
void read_exactly(const TensorFile& file, const StoredTensor* found, const std::string& name,
                  const TensorType& type, const std::function<void(const FillBytes& fill)>& write);

/// A tensor of F32 whose rows `read` gives when its turn has come.
[[nodiscard]] TensorToWrite tensor_of_rows(
    const std::string& name, const Shape& shape,
    std::function<void(int64_t row, std::span<float> values)> read);
/// Calls take(row, values) for whole rows of the file's tensor, as f32, from the first to the last.
void for_rows(const TensorFile& file, const StoredTensor& tensor,
              const std::function<void(int64_t row, std::span<const float>)>& take);

}  // namespace snug::io
