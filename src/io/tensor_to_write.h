// SPDX-License-Identifier: Apache-2.0
// A tensor on its way into a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/tensor_file.h"

namespace snug::io {

struct TensorToWrite {
  std::string name;
  StoredType dtype = StoredType::f32;
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;  // not owned; size follows from dtype and shape
  /// In place of `data`: puts the tensor's bytes, part by part, when its turn has come.
  using Put = std::function<void(std::span<const std::byte> bytes)>;
  std::function<void(const Put& put)> make = {};
};

/// Further entries of a file's metadata.
using SafetensorsNotes = std::map<std::string, std::string>;

}  // namespace snug::io
