// SPDX-License-Identifier: Apache-2.0
// Writes the two files that building a cache needs: the temporary file that becomes the cache, and
// the row index, which waits in a nameless file until the tokens before it are complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace snug::data {

/// Sequential writes through a fixed buffer, pushed to the disk and out of the page cache behind.
/// Throws Error{io}.
class BufferedFile {
 public:
  /// Takes over `fd`; `path` is for error texts.
  BufferedFile(int fd, std::string path, int64_t position = 0);
  ~BufferedFile();
  BufferedFile(const BufferedFile&) = delete;
  BufferedFile& operator=(const BufferedFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void flush();
  void sync();
  /// Reads back what was flushed.
  void read_at(int64_t offset, std::span<std::byte> bytes) const;
  /// Writes past the buffer, at once.
  void write_at(int64_t offset, std::span<const std::byte> bytes);
  [[nodiscard]] int64_t position() const { return flushed_ + static_cast<int64_t>(used_); }

 private:
  int fd_;
  std::string path_;
  int64_t flushed_;
  int64_t released_ = 0;
  std::unique_ptr<std::byte[]> buffer_;
  size_t used_ = 0;
};

/// `path`.tmp, locked against another process; removed again unless commit() is reached.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  [[nodiscard]] const std::string& path() const { return temporary_path_; }
  /// A descriptor of its own, for a BufferedFile.
  [[nodiscard]] int duplicate_fd() const;
  /// Renames it to `path` and makes the name durable.
  void commit();

 private:
  void take_over();

  std::string path_;
  std::string temporary_path_;
  int fd_ = -1;
  bool is_committed_ = false;
};

/// A new file without a name in the folder of `path`.
[[nodiscard]] int open_nameless(const std::string& path);

}  // namespace snug::data
