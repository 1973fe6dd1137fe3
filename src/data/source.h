// SPDX-License-Identifier: Apache-2.0
// Sequential reading of one text file through a fixed buffer, with line numbers, and the pieces
// that all row readers share: row errors and the checks of a row's text. Drops what it has read
// from the page cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/rows.h"
#include "snug/error.h"

namespace snug::data {

/// An error of one row, which the policy skip may pass over; any other Error ends the reading.
struct RowError : Error {
  using Error::Error;
  explicit RowError(const Error& error) : Error(error) {}
};

/// Size and modification time of a file.
struct FileStamp {
  int64_t bytes = 0;
  int64_t modified_ns = 0;
  bool operator==(const FileStamp&) const = default;
};
[[nodiscard]] FileStamp stamp_of(const std::string& path);

/// "what: reason of the last system call".
[[nodiscard]] Error io_error(const std::string& path, const std::string& what, int error_number);

class SourceFile {
 public:
  /// Opens a regular file and skips a UTF-8 byte order mark. Throws Error{io}, or Error{bad_data}
  /// for a file that is UTF-16 or compressed.
  explicit SourceFile(const std::string& path);
  ~SourceFile();
  SourceFile(const SourceFile&) = delete;
  SourceFile& operator=(const SourceFile&) = delete;

  /// The next byte, or -1 at the end.
  [[nodiscard]] int get() { return begin_ < end_ || fill() ? buffer_[begin_++] : -1; }
  /// As get, without taking it.
  [[nodiscard]] int peek() { return begin_ < end_ || fill() ? buffer_[begin_] : -1; }
  /// Skips to the byte after the next line feed.
  void skip_line();

  enum class Line : uint8_t { ok, end, too_long };
  /// Reads a line without its LF or CRLF; one longer than kMaxRowBytes is skipped. Throws
  /// unaffordable_row for one of more than `affordable_bytes`.
  [[nodiscard]] Line read_line(std::string& line, int64_t affordable_bytes = kMaxRowBytes);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int64_t position() const { return offset_ - static_cast<int64_t>(end_ - begin_); }
  [[nodiscard]] int64_t total_bytes() const { return total_bytes_; }

 private:
  [[nodiscard]] bool fill();
  void check_beginning();

  std::string path_;
  int fd_ = -1;
  int64_t total_bytes_ = 0;
  int64_t offset_ = 0;    // in the file, of the end of the buffer
  int64_t released_ = 0;  // page cache dropped up to here
  std::unique_ptr<unsigned char[]> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

/// "file:line".
[[nodiscard]] std::string place_of(const std::string& file, int64_t line);
/// The RowError of a row above kMaxRowBytes.
[[nodiscard]] RowError row_too_long(const std::string& where);
/// The error of a row that the budget does not let be read.
[[nodiscard]] Error unaffordable_row(const std::string& file, int64_t affordable_bytes);
/// Throws RowError where the bytes of a row are not UTF-8 or hold a NUL.
void check_text(std::string_view bytes, const std::string& file, int64_t line);
/// The first names, for error texts.
[[nodiscard]] std::string list_columns(const std::vector<std::string>& columns);
/// The error for a column that a whole file lacks; `key` is the configuration key that names it.
[[nodiscard]] Error missing_column(const std::string& where, const std::string& column,
                                   const std::string& key, const std::vector<std::string>& columns);

[[nodiscard]] std::unique_ptr<RowReader> open_jsonl(const std::string& file,
                                                    const RowSchema& schema, BadRowLog& log);
[[nodiscard]] std::unique_ptr<RowReader> open_delimited(const std::string& file,
                                                        const RowSchema& schema, char delimiter,
                                                        BadRowLog& log);

}  // namespace snug::data
