// SPDX-License-Identifier: Apache-2.0
// Buffered reading of source.h.
#include "data/source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/interrupted.h"
#include "data/utf8.h"

namespace snug::data {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;
constexpr int64_t kReleaseBytes = int64_t{8} << 20;
constexpr size_t kMaxNamedColumns = 16;

}  // namespace

Error io_error(const std::string& path, const std::string& what, int error_number) {
  std::string hint;
  if (error_number == ENOSPC || error_number == EDQUOT) hint = "free some disk space";
  return Error(ErrorCode::io, path, what + ": " + std::generic_category().message(error_number),
               hint);
}

FileStamp stamp_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw io_error(path, "cannot read the file", errno);
  return {.bytes = int64_t{status.st_size},
          .modified_ns =
              int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + int64_t{status.st_mtim.tv_nsec}};
}

SourceFile::SourceFile(const std::string& path)
    : path_(path), buffer_(std::make_unique_for_overwrite<unsigned char[]>(kBufferBytes)) {
  fd_ = while_interrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (fd_ < 0) throw io_error(path, "cannot open the file", errno);
  try {
    struct stat status {};
    if (::fstat(fd_, &status) != 0) throw io_error(path, "cannot read the file", errno);
    if (!S_ISREG(status.st_mode)) {
      throw Error(ErrorCode::io, path, "is not a regular file",
                  "give a file; a pipe or a folder cannot be read");
    }
    total_bytes_ = int64_t{status.st_size};
    check_beginning();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

SourceFile::~SourceFile() { ::close(fd_); }

void SourceFile::check_beginning() {
  if (!fill()) return;
  const std::string_view head(reinterpret_cast<const char*>(buffer_.get()), end_);
  if (head.starts_with("\xEF\xBB\xBF")) {
    begin_ = 3;
  } else if (head.starts_with("\xFF\xFE") || head.starts_with("\xFE\xFF")) {
    throw Error(ErrorCode::bad_data, path_, "the file is UTF-16; UTF-8 is expected",
                "convert it: iconv -f utf-16 -t utf-8");
  } else if (head.starts_with("\x1F\x8B") || head.starts_with("\x28\xB5\x2F\xFD")) {
    throw Error(ErrorCode::bad_data, path_, "the file is compressed", "decompress it first");
  }
}

bool SourceFile::fill() {
  if (offset_ - released_ >= kReleaseBytes) {
    // Only a hint: the file is read once, front to back.
    (void)::posix_fadvise(fd_, released_, offset_ - released_, POSIX_FADV_DONTNEED);
    released_ = offset_;
  }
  const ssize_t got =
      while_interrupted([&] { return ::pread(fd_, buffer_.get(), kBufferBytes, offset_); });
  if (got < 0) throw io_error(path_, "reading failed", errno);
  begin_ = 0;
  end_ = static_cast<size_t>(got);
  offset_ += got;
  return got > 0;
}

void SourceFile::skip_line() {
  while (begin_ < end_ || fill()) {
    const void* found = std::memchr(buffer_.get() + begin_, '\n', end_ - begin_);
    if (found != nullptr) {
      begin_ = static_cast<size_t>(static_cast<const unsigned char*>(found) - buffer_.get()) + 1;
      return;
    }
    begin_ = end_;
  }
}

SourceFile::Line SourceFile::read_line(std::string& line, int64_t affordable_bytes) {
  line.clear();
  if (begin_ == end_ && !fill()) return Line::end;
  do {
    const unsigned char* from = buffer_.get() + begin_;
    const void* found = std::memchr(from, '\n', end_ - begin_);
    const size_t count = found != nullptr
                             ? static_cast<size_t>(static_cast<const unsigned char*>(found) - from)
                             : end_ - begin_;
    if (line.size() + count > static_cast<size_t>(kMaxRowBytes)) {
      skip_line();
      line.clear();
      return Line::too_long;
    }
    if (line.size() + count > static_cast<size_t>(affordable_bytes))
      throw unaffordable_row(path_, affordable_bytes);
    line.append(reinterpret_cast<const char*>(from), count);
    begin_ += count;
    if (found != nullptr) {
      ++begin_;
      break;
    }
  } while (fill());
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return Line::ok;
}

std::string place_of(const std::string& file, int64_t line) {
  return file + ":" + std::to_string(line);
}

RowError row_too_long(const std::string& where) {
  return RowError(ErrorCode::bad_data, where,
                  "the row is longer than " + std::to_string(kMaxRowBytes >> 20) + " MiB",
                  "split or shorten the row, or set bad_rows to skip");
}

Error unaffordable_row(const std::string& file, int64_t affordable_bytes) {
  return Error(ErrorCode::out_of_budget, file,
               "a row is longer than " + std::to_string(affordable_bytes) +
                   " bytes, which is what the budget lets be read",
               "raise memory, or cut the row: only max_seq_length tokens of it count");
}

void check_text(std::string_view bytes, const std::string& file, int64_t line) {
  if (const auto bad = first_invalid_utf8(bytes)) {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(bytes[*bad]);
    throw RowError(ErrorCode::bad_data, place_of(file, line),
                   std::string("invalid UTF-8: byte 0x") + kHex[byte >> 4] + kHex[byte & 15] +
                       " at offset " + std::to_string(*bad) + " of the row",
                   "convert the file to UTF-8 (iconv -t utf-8), or set bad_rows to skip");
  }
  if (const auto bad = bytes.find('\0'); bad != std::string_view::npos) {
    throw RowError(ErrorCode::bad_data, place_of(file, line),
                   "a NUL byte at offset " + std::to_string(bad) + " of the row",
                   "remove it, or set bad_rows to skip");
  }
}

std::string list_columns(const std::vector<std::string>& columns) {
  std::string names;
  for (size_t i = 0; i < columns.size() && i < kMaxNamedColumns; ++i) {
    names += (i == 0 ? "" : ", ") + clip_text(columns[i], 40);
  }
  if (columns.size() > kMaxNamedColumns) names += ", ...";
  return names.empty() ? "none" : names;
}

Error missing_column(const std::string& where, const std::string& column, const std::string& key,
                     const std::vector<std::string>& columns) {
  return Error(ErrorCode::bad_config, where,
               "there is no column '" + column + "'; the columns are: " + list_columns(columns),
               columns.empty() ? R"(write every row as {"text": "a text", "label": "its label"})"
                               : "set " + key + " to one of them");
}

}  // namespace snug::data
