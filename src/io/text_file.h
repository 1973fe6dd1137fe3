// SPDX-License-Identifier: Apache-2.0
// Sequential reading of one text file through a fixed buffer, so that a file may have any size;
// unpacks gzip where it is asked to. Drops what it has read from the page cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "io/file.h"
#include "io/gzip.h"

namespace snug::io {

/// What becomes of a file that is a gzip archive.
enum class Gzip : uint8_t { is_refused, is_unpacked };

class TextFile {
 public:
  /// Opens a regular file. An archive is known by its first bytes, whatever it is called.
  explicit TextFile(const std::string& path, Gzip gzip = Gzip::is_refused);

  /// At the file's beginning: skips a byte order mark of UTF-8, and reads carriage returns as line
  /// feeds where the file's first part has those only (as files of old Macintoshes, and of
  /// spreadsheets that save for them). Throws Error{bad_data} for a file that is UTF-16 or
  /// compressed.
  void begin_text();

  /// The next byte, or -1 at the end.
  [[nodiscard]] int get() { return begin_ < end_ || fill() ? buffer_[begin_++] : -1; }
  /// As get, without taking it.
  [[nodiscard]] int peek() { return begin_ < end_ || fill() ? buffer_[begin_] : -1; }
  /// Skips to the byte after the next line feed.
  void skip_line();

  enum class Line : uint8_t { ok, end, too_long };
  /// Reads a line without its LF or CRLF. Of one that is too long `line` has the first `most_bytes`
  /// bytes; the rest comes next.
  [[nodiscard]] Line read_line(std::string& line, int64_t most_bytes);

  [[nodiscard]] const std::string& path() const { return file_.path(); }
  /// How much of the file, as it lies on the disk, is read; of an archive, and is unpacked.
  [[nodiscard]] int64_t position() const {
    return gzip_ ? gzip_->position() : offset_ - static_cast<int64_t>(end_ - begin_);
  }
  [[nodiscard]] int64_t total_bytes() const { return total_bytes_; }

 private:
  [[nodiscard]] bool fill();
  [[nodiscard]] int64_t read_some();
  void feed_lines();

  File file_;
  std::optional<GzipReader> gzip_;
  int64_t total_bytes_ = 0;
  int64_t offset_ = 0;    // in the text, of the end of the buffer
  int64_t released_ = 0;  // page cache dropped up to here
  std::unique_ptr<unsigned char[]> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  bool ends_with_returns_ = false;
};

/// "file:line".
[[nodiscard]] std::string place_of(const std::string& file, int64_t line);

}  // namespace snug::io
