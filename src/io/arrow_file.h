// SPDX-License-Identifier: Apache-2.0
// Arrow's columns in a file, as Hugging Face's datasets and pyarrow.ipc write them: a stream of
// record batches, bare or in the format that begins with ARROW1. Says which columns there are and
// where in the file a batch has their buffers; reads no elements. Heap: the metadata of a batch.
// Compressed batches, big-endian files and Arrow before 0.15 are refused by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/file.h"

namespace snug::io {

enum class ArrowKind : uint8_t {
  null,
  boolean,
  integer,
  real,  // of 32 or 64 bits
  text,
  list,   // of any length, or all of one
  other,  // nothing that a row of ours is made of
};

struct ArrowField {
  std::string name;
  ArrowKind kind = ArrowKind::other;
  std::string type;        // as Arrow calls it
  int bits = 0;            // of a number; of the offsets of texts and lists
  bool is_signed = false;  // a number
  int64_t list_size = -1;  // of lists that all have one
  std::vector<ArrowField> children;
  size_t buffers = 2;             // that a batch has of it, beside those of its children
  bool has_more_buffers = false;  // as many as the batch says
};

struct ArrowBuffer {
  int64_t offset = 0;  // in the file
  int64_t bytes = 0;
};

/// What a batch has of a field.
struct ArrowArray {
  int64_t rows = 0;
  int64_t nulls = 0;
  std::vector<ArrowBuffer> buffers;  // validity, then offsets or values, then the bytes of texts
  std::vector<ArrowArray> children;
};

struct ArrowBatch {
  int64_t rows = 0;
  std::vector<ArrowArray> columns;  // as many as there are fields
};

class ArrowFile {
 public:
  /// Throws Error{bad_data}, Error{unsupported}, Error{io}.
  explicit ArrowFile(const std::string& path);

  [[nodiscard]] const std::vector<ArrowField>& fields() const { return fields_; }
  /// The next batch; false at the end.
  [[nodiscard]] bool next(ArrowBatch& batch);
  /// What the schema says under this key, beside its columns; empty where it says nothing.
  [[nodiscard]] std::string metadata(std::string_view key) const;
  [[nodiscard]] const File& file() const { return file_; }
  /// Behind the batch.
  [[nodiscard]] int64_t position() const { return position_; }
  [[nodiscard]] int64_t total_bytes() const { return total_bytes_; }

 private:
  struct Message;
  [[nodiscard]] bool read_message(Message& message);
  void read_schema();

  File file_;
  int64_t total_bytes_ = 0;
  int64_t position_ = 0;
  std::vector<ArrowField> fields_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};

/// Whether a file begins as Arrow's do.
[[nodiscard]] bool begins_as_arrow(const File& file);

}  // namespace snug::io
