// SPDX-License-Identifier: Apache-2.0
// The safetensors format: 8 bytes of little-endian header length, a JSON header, then the tensors'
// bytes back to back. Files are foreign bytes: the header is checked against hard bounds before
// anything is believed, and every malformed file is one Error{bad_data} with the file, what is
// wrong and what to do. Data is read with pread straight to its destination; nothing is mapped and
// no buffer grows with the file.
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

class SafetensorsFile : public TensorFile {
 public:
  explicit SafetensorsFile(const std::string& path);
};

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

/// Bytes of the file that write_safetensors would write.
[[nodiscard]] int64_t safetensors_file_bytes(std::span<const TensorToWrite> tensors,
                                             const SafetensorsNotes& notes = {});

/// Writes the tensors in the given order, metadata {"format": "pt"} and the notes, header padded to
/// 8 bytes, forces the file to the disk and returns its sha256. The same input gives the same
/// bytes. Memory beside the tensors: the header only.
std::string write_safetensors(const std::string& path, std::span<const TensorToWrite> tensors,
                              const SafetensorsNotes& notes = {});

}  // namespace snug::io
