// SPDX-License-Identifier: Apache-2.0
#include "io/text_file.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/ascii.h"
#include "snug/error.h"

namespace snug::io {
namespace {

constexpr size_t kTextBufferBytes = size_t{256} << 10;
constexpr int64_t kReleaseTextBytes = int64_t{8} << 20;

}  // namespace

TextFile::TextFile(const std::string& path, Gzip gzip)
    : file_(File::open_read(path)),
      total_bytes_(file_.size_bytes()),
      buffer_(std::make_unique_for_overwrite<unsigned char[]>(kTextBufferBytes)) {
  if (gzip == Gzip::is_unpacked && is_gzip(file_)) gzip_.emplace();
}

// By its mark, or by the zeros of a first letter of ASCII; empty: none of several bytes a letter.
static std::string_view wide_encoding(std::string_view head) {
  using namespace std::string_view_literals;
  if (head.starts_with("\xFF\xFE\0\0"sv) || head.starts_with("\0\0\xFE\xFF"sv)) return "UTF-32";
  if (head.starts_with("\xFF\xFE") || head.starts_with("\xFE\xFF")) return "UTF-16";
  if (head.size() < 4) return {};
  const auto is_zero = [head](size_t at) { return head[at] == '\0'; };
  if (!is_zero(0) && is_zero(1) && !is_zero(2) && is_zero(3)) return "UTF-16LE";
  if (is_zero(0) && !is_zero(1) && is_zero(2) && !is_zero(3)) return "UTF-16BE";
  return {};
}

void TextFile::begin_text() {
  if (!fill()) return;
  const std::string_view head(reinterpret_cast<const char*>(buffer_.get()), end_);
  if (head.starts_with("\xEF\xBB\xBF")) {
    begin_ = 3;
  } else if (const std::string_view name = wide_encoding(head); !name.empty()) {
    throw Error(
        ErrorCode::bad_data, path(), "the file is " + std::string(name) + "; UTF-8 is expected",
        "convert it: iconv -f " + ascii::lowered(std::string(name)) + " -t utf-8 FILE > NEW_FILE");
  } else if (head.starts_with("\x1F\x8B") || head.starts_with("\x28\xB5\x2F\xFD")) {
    throw Error(ErrorCode::bad_data, path(), "the file is compressed", "decompress it first");
  }
  const std::string_view text = head.substr(begin_);
  ends_with_returns_ = text.find('\r') != text.npos && text.find('\n') == text.npos;
  feed_lines();
}

void TextFile::feed_lines() {
  if (ends_with_returns_)
    std::replace(buffer_.get() + begin_, buffer_.get() + end_, static_cast<unsigned char>('\r'),
                 static_cast<unsigned char>('\n'));
}

int64_t TextFile::read_some() {
  auto* const buffer = reinterpret_cast<std::byte*>(buffer_.get());
  if (gzip_) return gzip_->read(file_, buffer, static_cast<int64_t>(kTextBufferBytes));
  if (offset_ - released_ >= kReleaseTextBytes) {
    // Only a hint: the file is read once, front to back.
    file_.release_cache(released_, offset_ - released_);
    released_ = offset_;
  }
  return file_.read_some_at(offset_, buffer, static_cast<int64_t>(kTextBufferBytes));
}

bool TextFile::fill() {
  const int64_t got = read_some();
  begin_ = 0;
  end_ = static_cast<size_t>(got);
  offset_ += got;
  feed_lines();
  return got > 0;
}

void TextFile::skip_line() {
  while (begin_ < end_ || fill()) {
    const void* found = std::memchr(buffer_.get() + begin_, '\n', end_ - begin_);
    if (found != nullptr) {
      begin_ = static_cast<size_t>(static_cast<const unsigned char*>(found) - buffer_.get()) + 1;
      return;
    }
    begin_ = end_;
  }
}

TextFile::Line TextFile::read_line(std::string& line, int64_t most_bytes) {
  line.clear();
  if (begin_ == end_ && !fill()) return Line::end;
  do {
    const unsigned char* from = buffer_.get() + begin_;
    const void* found = std::memchr(from, '\n', end_ - begin_);
    const size_t count = found != nullptr
                             ? static_cast<size_t>(static_cast<const unsigned char*>(found) - from)
                             : end_ - begin_;
    const size_t taken = std::min(count, static_cast<size_t>(most_bytes) - line.size());
    line.append(reinterpret_cast<const char*>(from), taken);
    begin_ += taken;
    if (taken < count) return Line::too_long;
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

}  // namespace snug::io
