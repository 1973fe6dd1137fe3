// SPDX-License-Identifier: Apache-2.0
// Opening: prefix, header, and what they must agree on.
#include "io/safetensors.h"

#include <cstring>
#include <utility>

#include "base/shell.h"
#include "io/file.h"
#include "io/safetensors_header.h"
#include "snug/error.h"

namespace snug::io {
namespace {

constexpr int64_t kPrefixBytes = 8;
constexpr uint64_t kZipMagic = 0x04034B50;  // "PK\3\4"

TensorTable table_of(const File& file) {
  const std::string& path = file.path();
  refuse_lfs_pointer(file);
  const int64_t file_bytes = file.size_bytes();
  if (file_bytes < kPrefixBytes) {
    throw_bad_safetensors(path, "it has only " + std::to_string(file_bytes) + " bytes");
  }
  uint64_t header_bytes = 0;
  file.read_at(0, reinterpret_cast<std::byte*>(&header_bytes), kPrefixBytes);
  if ((header_bytes & 0xFFFF'FFFF) == kZipMagic) {
    throw Error(
        ErrorCode::bad_data, path, "is no safetensors file but a zip archive, as torch.save writes",
        "where torch.save wrote it: mv " + shell_word(path) + " " +
            shell_word(parent_folder(path) + "/pytorch_model.bin") + " (Snug reads that, too)");
  }
  if (header_bytes > static_cast<uint64_t>(kMaxHeaderBytes) ||
      header_bytes > static_cast<uint64_t>(file_bytes - kPrefixBytes)) {
    throw_bad_safetensors(path, "it claims a header of " + std::to_string(header_bytes) +
                                    " bytes in a file of " + std::to_string(file_bytes) + " bytes");
  }
  std::string text(static_cast<size_t>(header_bytes), '\0');
  const auto text_bytes = static_cast<int64_t>(header_bytes);
  file.read_at(kPrefixBytes, reinterpret_cast<std::byte*>(text.data()), text_bytes);
  const int64_t data_begin = kPrefixBytes + text_bytes;
  SafetensorsHeader header = parse_safetensors_header(text, file_bytes - data_begin, path);
  return {.tensors = std::move(header.tensors),
          .metadata = std::move(header.metadata),
          .data_begin = data_begin,
          .table_bytes = text_bytes};
}

TensorFile open(const std::string& path) {
  File file = File::open_read(path);
  TensorTable table = table_of(file);
  return {std::move(file), std::move(table)};
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : TensorFile(open(path)) {}

}  // namespace snug::io
