// SPDX-License-Identifier: Apache-2.0
// CSV after RFC 4180, record by record: fields may be quoted, a doubled quote stands for one, and
// delimiters and line breaks inside quotes belong to the field. Strict: a stray quote is an error
// rather than a guess, since a guess moves text between records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/text_file.h"
#include "snug/error.h"

namespace snug::io {

struct CsvBounds {
  int64_t record_bytes;  // of all its fields
  size_t fields;
  char delimiter = ',';  // between two fields
};

/// The fields of one record, end to end in one string.
class CsvRecord {
 public:
  [[nodiscard]] size_t size() const { return ends_.size(); }
  [[nodiscard]] std::string_view field(size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  /// The line of the file on which the record begins, counted from 1.
  [[nodiscard]] int64_t line() const { return line_; }

  void begin(int64_t line);
  void push(char byte) { bytes_.push_back(byte); }
  void end_field() { ends_.push_back(bytes_.size()); }

 private:
  std::string bytes_;
  std::vector<size_t> ends_;
  int64_t line_ = 0;
};

/// too_long: above CsvBounds::record_bytes. endless: too long inside quotes, so that where the next
/// record begins is anyone's guess; after the others the reader stands at the next line.
enum class CsvFault : uint8_t { malformed, too_long, endless };

/// An error of one record.
struct BadRecord : Error {
  BadRecord(CsvFault kind, const std::string& where, const std::string& message,
            const std::string& hint)
      : Error(ErrorCode::bad_data, where, message, hint), fault(kind) {}
  CsvFault fault;
};

class CsvReader {
 public:
  /// `source` is at its beginning, and outlives the reader.
  CsvReader(TextFile& source, CsvBounds bounds) : source_(source), bounds_(bounds) {}

  /// Reads the next record that is not a blank line; false at the end. Throws BadRecord, or
  /// Error{bad_data} where the file ends inside quotes.
  [[nodiscard]] bool next(CsvRecord& record);

 private:
  void read_bare_field(CsvRecord& record);
  void read_inside_quotes(CsvRecord& record);
  [[nodiscard]] bool is_full(const CsvRecord& record) const {
    return static_cast<int64_t>(record.bytes().size()) >= bounds_.record_bytes;
  }
  [[noreturn]] void fail(CsvFault fault, int64_t line, const std::string& message,
                         const std::string& hint);

  TextFile& source_;
  CsvBounds bounds_;
  int64_t line_ = 1;  // the line that the next byte belongs to
};

/// The field as it must stand in a file: quoted where it has to be.
[[nodiscard]] std::string csv_field(std::string_view text);

}  // namespace snug::io
