// SPDX-License-Identifier: Apache-2.0
// SHA-256 of a file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace snug::io {

/// Reads the file in bounded chunks. `on_chunk` hears how many bytes are read and how many there
/// are, and may throw.
[[nodiscard]] std::string sha256_of_file(
    const std::string& path, const std::function<void(int64_t done, int64_t total)>& on_chunk = {});

}  // namespace snug::io
