// SPDX-License-Identifier: Apache-2.0
// Frozen weights in 16 or 8 bits as a rewrite of a network's forward part: products and rows of
// them become those of ops/frozen/frozen.h, which decode them panel by panel. A weight keeps its
// name; in 8 bits the buffer NAME.scales stands beside it.
//
// Coded is what is frozen, has two dimensions and 4096 elements or more, and is read by nothing but
// products and gathers of rows. Norms, biases and the head stay as they are.
#pragma once

#include <string>
#include <vector>

#include "programs/network_def.h"

namespace snug::train {

inline constexpr const char* kScalesSuffix = ".scales";

/// How "float32", "bfloat16" or "int8" store a frozen weight. Throws Error{bad_config} at
/// "frozen_dtype" for another word.
[[nodiscard]] DType frozen_storage_of(const std::string& word);

/// The network with what `freeze` and itself freeze in this type; itself where that is f32.
/// Building it throws Error{bad_config} where there is no such weight.
[[nodiscard]] NetworkDef with_frozen_storage(NetworkDef network,
                                             const std::vector<std::string>& freeze, DType storage);

/// Whether a resident value is a weight that is stored so.
[[nodiscard]] bool is_frozen_code(ValueKind kind, DType dtype);

}  // namespace snug::train
