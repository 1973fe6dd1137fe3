// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file: from JSON text to checked tensors, and back. Knows no files.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/tensor_to_write.h"

namespace snug::io {

inline constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the format's own bound

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
};

/// Parses and checks: known types, sizes that follow from the shapes, ranges that cover [0,
/// data_bytes) exactly, no name twice. Throws Error{bad_data} for `path`.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes,
                                                         const std::string& path);

/// Header text for tensors laid out back to back in this order, padded with spaces to a multiple of
/// 8 bytes.
[[nodiscard]] std::string safetensors_header_text(std::span<const TensorToWrite> tensors,
                                                  const SafetensorsNotes& notes = {});

[[noreturn]] void throw_bad_safetensors(const std::string& path, const std::string& what);

}  // namespace snug::io
