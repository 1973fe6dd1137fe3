// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace snug::fuzz {

/// Opens a pytorch_model.bin of so many bytes and reads all its tensors.
void read_torch_tensors(const std::string& path, size_t file_bytes);

}  // namespace snug::fuzz
