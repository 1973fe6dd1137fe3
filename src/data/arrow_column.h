// SPDX-License-Identifier: Apache-2.0
// The elements of one column of an Arrow file, row by row. Reads them from the file through small
// windows, so a batch may have any size; nothing that is read is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/arrow_file.h"

namespace snug::data {

/// A buffer of the file, read front to back through a window.
class ArrowWindow {
 public:
  explicit ArrowWindow(size_t window_bytes) : window_(window_bytes) {}
  void open(const io::File& file, io::ArrowBuffer buffer);
  /// Throws Error{bad_data} for what lies outside of the buffer.
  void read(int64_t at, std::span<std::byte> out);

 private:
  const io::File* file_ = nullptr;
  io::ArrowBuffer buffer_;
  std::vector<std::byte> window_;
  int64_t begin_ = 0;
  int64_t held_ = 0;
};

class ArrowColumn {
 public:
  /// The field outlives it.
  explicit ArrowColumn(const io::ArrowField& field);

  [[nodiscard]] const io::ArrowField& field() const { return field_; }
  [[nodiscard]] bool is_number() const;
  /// Goes to a batch.
  void open(const io::File& file, const io::ArrowArray& array);

  [[nodiscard]] bool is_null(int64_t row);
  /// The place of a text's bytes, or of a list's items.
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };
  [[nodiscard]] Range range(int64_t row);
  /// The bytes from `begin` to `end` of the column's texts.
  void read_text(Range bytes, std::string& out);
  [[nodiscard]] double real(int64_t row);
  /// The digits of a whole number; true or false.
  [[nodiscard]] std::string word(int64_t row);
  /// What a list is made of.
  [[nodiscard]] ArrowColumn& items() { return *items_; }

 private:
  template <class T>
  [[nodiscard]] T value(int64_t row);
  void require(int64_t row, int64_t rows) const;

  const io::ArrowField& field_;
  std::string path_;
  int64_t rows_ = 0;
  int64_t nulls_ = 0;
  ArrowWindow validity_, values_, bytes_;  // values: or offsets
  std::unique_ptr<ArrowColumn> items_;
};

}  // namespace snug::data
