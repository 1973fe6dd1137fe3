// SPDX-License-Identifier: Apache-2.0
// An open file of named tensors, whatever its form (safetensors.h, torch_file.h). Data is read with
// pread straight to its destination; nothing is mapped and no buffer grows with the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"

namespace snug::io {

/// Element types of files.
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
/// The word of safetensors: "F32", "BF16", "BOOL".
[[nodiscard]] std::string_view to_string(StoredType type);
[[nodiscard]] int64_t bytes_of(StoredType type);
/// F64, F32, F16 or BF16.
[[nodiscard]] bool is_real(StoredType type);
/// The type of that word; false where there is none.
[[nodiscard]] bool parse_stored_type(std::string_view word, StoredType& type);

/// Bytes of a tensor; false if the product does not fit 63 bits or a dimension is negative.
[[nodiscard]] bool tensor_bytes(StoredType type, std::span<const int64_t> shape, int64_t& bytes);

struct StoredTensor {
  std::string name;
  StoredType dtype = StoredType::f32;
  std::vector<int64_t> shape;
  int64_t begin = 0;                  // of its first element, in bytes from the begin of the data
  int64_t end = 0;                    // begin + its own bytes
  std::vector<int64_t> strides = {};  // in elements; empty: row after row without gaps

  [[nodiscard]] int64_t size_bytes() const { return end - begin; }
  [[nodiscard]] int64_t elements() const { return size_bytes() / bytes_of(dtype); }
  bool operator==(const StoredTensor&) const = default;
};

/// What a file says of its tensors, checked: all of them lie in it.
struct TensorTable {
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string> metadata = {};
  int64_t data_begin = 0;   // in the file
  int64_t table_bytes = 0;  // of the file that say all this
};

/// Throws Error{bad_data} for the lines that git-lfs keeps in place of a file that it did not
/// fetch.
void refuse_lfs_pointer(const File& file);

/// An open file with a checked table. Const calls may run on several threads.
class TensorFile {
 public:
  TensorFile(File file, TensorTable table);

  [[nodiscard]] const std::string& path() const { return file_.path(); }
  /// In the file's order.
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const { return table_.tensors; }
  /// Null if there is none of that name.
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const {
    return table_.metadata;
  }
  /// What an open file holds in memory is in proportion to this.
  [[nodiscard]] int64_t table_bytes() const { return table_.table_bytes; }

  /// Reads the stored bytes; `bytes` must be the tensor's size. A missing name or a wrong size is
  /// Error{bad_data}.
  void read(std::string_view name, std::byte* dst, int64_t bytes) const;
  /// Reads so many elements from this one, as they are stored.
  void read(const StoredTensor& tensor, int64_t first, int64_t count, std::byte* dst) const;
  /// Reads F32, F16, BF16 or F64 as float. Other types are Error{bad_data}.
  void read_f32(std::string_view name, std::span<float> dst) const;
  /// The same of the elements from this one.
  void read_f32(std::string_view name, int64_t first, std::span<float> dst) const;
  /// Reads F32, F16, BF16 or F64 as double.
  void read_f64(std::string_view name, std::span<double> dst) const;

 private:
  [[nodiscard]] const StoredTensor& require(std::string_view name) const;
  void require_elements(std::string_view name, size_t wanted) const;
  template <class T>
  void read_as(std::string_view name, int64_t first, std::span<T> dst) const;

  File file_;
  TensorTable table_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace snug::io
