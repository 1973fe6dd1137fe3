// SPDX-License-Identifier: Apache-2.0
// A model's folder written anew, as transformers reads it.
#pragma once

#include <optional>
#include <string>

#include "io/tensor_file.h"
#include "run_model/model.h"

namespace snug::run_model {

/// Writes all tensors of the model's folder, those of heads that it has no use for too, as one
/// model.safetensors under the names of today, real ones in this type (none: as they are stored);
/// config.json as it is but for its type; the files of tokenizer and preprocessor as they are. The
/// folder appears whole or not at all; a part of a weight at a time is in memory. Throws
/// Error{numeric} for a weight that is not finite and for one that the type cannot hold.
void write_exported_model(const std::string& folder, const Model& model,
                          std::optional<io::StoredType> type);

}  // namespace snug::run_model
