// SPDX-License-Identifier: Apache-2.0
// CSV after RFC 4180 from one text: fields may be quoted, a doubled quote stands for one, and
// delimiters and line breaks inside quotes belong to the field. Strict, since a guess moves data
// between fields. (Training data are read in a stream by data/rows; problem files are small.)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace snug::solve {

class CsvReader {
 public:
  /// `text` must outlive the reader; `file` is named in errors.
  CsvReader(std::string_view text, std::string file);

  /// Reads the next record that is not a blank line; false at the end. Throws Error{bad_data}, for
  /// more than 64 fields too.
  [[nodiscard]] bool next(std::vector<std::string>& fields);
  /// "FILE:LINE" of the last record's first line.
  [[nodiscard]] std::string place() const;
  [[nodiscard]] int64_t line() const { return record_line_; }

 private:
  void read_quoted(std::string& field);
  void read_bare(std::string& field);
  [[noreturn]] void fail(int64_t line, const std::string& message, const std::string& hint) const;

  std::string_view rest_;
  std::string file_;
  int64_t line_ = 1;
  int64_t record_line_ = 1;
};

/// The field as it must stand in a file: quoted where it has to be.
[[nodiscard]] std::string csv_field(std::string_view text);

}  // namespace snug::solve
