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
#include <string_view>
#include <vector>

#include "io/file.h"

namespace snug::io {

/// Element types of the format.
enum class StoredType : uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean
};
/// The format's own word: "F32", "BF16", "BOOL".
[[nodiscard]] std::string_view to_string(StoredType type);
[[nodiscard]] int64_t bytes_of(StoredType type);

struct TensorInfo {
  std::string name;
  StoredType dtype = StoredType::f32;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // bytes from the end of the header
  int64_t end = 0;

  [[nodiscard]] int64_t size_bytes() const { return end - begin; }
  [[nodiscard]] int64_t elements() const { return size_bytes() / bytes_of(dtype); }
  bool operator==(const TensorInfo&) const = default;
};

/// Bytes of all headers and of the index of the weights that SafetensorsModel would open in a
/// folder; 0 where it would find none. Believes the files: only to reckon with.
[[nodiscard]] int64_t safetensors_header_bytes(const std::string& folder);

/// An open file with a checked header. Const calls may run on several threads.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);
  /// Bytes of a file's header as its first 8 bytes say; 0 where that cannot be.
  [[nodiscard]] static int64_t header_bytes(const std::string& path);

  [[nodiscard]] const std::string& path() const { return file_.path(); }
  /// In the order of their bytes in the file.
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return tensors_; }
  /// Null if there is none of that name.
  [[nodiscard]] const TensorInfo* find(std::string_view name) const;
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// Reads the stored bytes; `bytes` must be the tensor's size. A missing name or a wrong size is
  /// Error{bad_data}.
  void read(std::string_view name, std::byte* dst, int64_t bytes) const;
  /// Reads F32, F16, BF16 or F64 as float. Other types are Error{bad_data}.
  void read_f32(std::string_view name, std::span<float> dst) const;
  /// The same of the elements from this one.
  void read_f32(std::string_view name, int64_t first, std::span<float> dst) const;
  /// Reads F32, F16, BF16 or F64 as double.
  void read_f64(std::string_view name, std::span<double> dst) const;

 private:
  [[nodiscard]] const TensorInfo& require(std::string_view name) const;
  void require_elements(std::string_view name, size_t wanted) const;
  template <class T>
  void read_as(std::string_view name, int64_t first, std::span<T> dst) const;

  File file_;
  int64_t data_begin_ = 0;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, size_t, std::less<>> by_name_;
  std::map<std::string, std::string> metadata_;
};

/// The weights of a model: one file, a sharded `model.safetensors.index.json`, or a folder that
/// holds either.
class SafetensorsModel {
 public:
  explicit SafetensorsModel(const std::string& path);

  /// All tensors, sorted by name. `begin` and `end` are offsets in their own shard.
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return tensors_; }
  [[nodiscard]] const TensorInfo* find(std::string_view name) const;
  /// The file that holds the tensor; a missing one is Error{bad_data} with the nearest names.
  [[nodiscard]] const SafetensorsFile& file_of(std::string_view name) const;
  void read_f32(std::string_view name, std::span<float> dst) const {
    file_of(name).read_f32(name, dst);
  }

 private:
  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, size_t, std::less<>> file_of_name_;
};

struct TensorToWrite {
  std::string name;
  StoredType dtype = StoredType::f32;
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;  // not owned; size follows from dtype and shape
  /// In place of `data`: puts the elements of a tensor of F32, part by part, when its turn has
  /// come.
  using Put = std::function<void(std::span<const float> values)>;
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
