// SPDX-License-Identifier: Apache-2.0
// Writing: prefix, header, then every tensor straight from the caller's memory.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "io/hashing_writer.h"
#include "io/json_tree.h"
#include "io/safetensors.h"
#include "io/safetensors_header.h"
#include "snug/error.h"

namespace snug::io {
namespace {

int64_t size_of(const TensorToWrite& tensor) {
  int64_t bytes = 0;
  SNUG_CHECK(tensor_bytes(tensor.dtype, tensor.shape, bytes), tensor.name);
  return bytes;
}

void check_names(std::span<const TensorToWrite> tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorToWrite& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  SNUG_CHECK(twice == names.end(), "two tensors to write are named " + std::string(*twice));
  SNUG_CHECK(!std::binary_search(names.begin(), names.end(), std::string_view("__metadata__")),
             "reserved name");
}

}  // namespace

int64_t safetensors_file_bytes(std::span<const TensorToWrite> tensors,
                               const SafetensorsNotes& notes) {
  int64_t bytes = 8 + static_cast<int64_t>(safetensors_header_text(tensors, notes).size());
  for (const TensorToWrite& tensor : tensors) bytes += size_of(tensor);
  return bytes;
}

std::string write_safetensors(const std::string& path, std::span<const TensorToWrite> tensors,
                              const SafetensorsNotes& notes) {
  check_names(tensors);
  const std::string header = safetensors_header_text(tensors, notes);
  SNUG_CHECK(static_cast<int64_t>(header.size()) <= kMaxHeaderBytes, "the header fits the format");
  std::array<char, 8> prefix{};
  const uint64_t header_bytes = header.size();
  std::memcpy(prefix.data(), &header_bytes, prefix.size());
  HashingWriter writer(path);
  writer.write(prefix.data(), 8);
  writer.write(header.data(), static_cast<int64_t>(header.size()));
  for (const TensorToWrite& tensor : tensors) {
    if (!tensor.make) {
      writer.write(tensor.data, size_of(tensor));
      continue;
    }
    int64_t bytes = 0;
    tensor.make([&](std::span<const std::byte> part) {
      bytes += static_cast<int64_t>(part.size());
      writer.write(part.data(), static_cast<int64_t>(part.size()));
    });
    SNUG_CHECK(bytes == size_of(tensor), tensor.name);
  }
  return writer.finish();
}

}  // namespace snug::io
