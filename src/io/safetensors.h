// SPDX-License-Identifier: Apache-2.0
// The safetensors format: 8 bytes of little-endian header length, a JSON header, then the tensors'
// bytes back to back. Files are foreign bytes: the header is checked against hard bounds before
// anything is believed, and every malformed file is one Error{bad_data} with the file, what is
// wrong and what to do. Data is read with pread straight to its destination; nothing is mapped and
// no buffer grows with the file.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "io/tensor_file.h"
#include "io/tensor_to_write.h"

namespace snug::io {

class SafetensorsFile : public TensorFile {
 public:
  explicit SafetensorsFile(const std::string& path);
};

/// Bytes of the file that write_safetensors would write.
[[nodiscard]] int64_t safetensors_file_bytes(std::span<const TensorToWrite> tensors,
                                             const SafetensorsNotes& notes = {});

/// Writes the tensors in the given order, metadata {"format": "pt"} and the notes, header padded to
/// 8 bytes, forces the file to the disk and returns its sha256. The same input gives the same
/// bytes. Memory beside the tensors: the header only.
std::string write_safetensors(const std::string& path, std::span<const TensorToWrite> tensors,
                              const SafetensorsNotes& notes = {});

}  // namespace snug::io
