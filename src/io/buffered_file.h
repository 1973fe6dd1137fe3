// SPDX-License-Identifier: Apache-2.0
// Large files that are written front to back while they are made: through a fixed buffer, out of
// the page cache, under a temporary name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/file.h"
#include "io/file_lock.h"

namespace snug::io {

/// Sequential writes through a fixed buffer, pushed to the disk and out of the page cache behind.
/// Throws Error{io}.
class BufferedFile {
 public:
  explicit BufferedFile(File file, int64_t position = 0);

  void write(std::span<const std::byte> bytes);
  void flush();
  void sync();
  /// Reads back what was flushed.
  void read_at(int64_t offset, std::span<std::byte> bytes) const;
  /// Writes past the buffer, at once.
  void write_at(int64_t offset, std::span<const std::byte> bytes);
  [[nodiscard]] int64_t position() const { return flushed_ + static_cast<int64_t>(used_); }

 private:
  File file_;
  int64_t flushed_;
  int64_t released_ = 0;
  std::unique_ptr<std::byte[]> buffer_;
  size_t used_ = 0;
};

/// `path`.tmp, locked against another process; removed again unless commit() is reached.
class TemporaryFile {
 public:
  /// `busy` says what another process that holds the file is doing, and how to go on.
  struct Busy {
    std::string what;
    std::string hint;
  };
  TemporaryFile(std::string path, const Busy& busy);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  /// The same file with a descriptor of its own.
  [[nodiscard]] File duplicate() const;
  /// Renames it to `path`, or to another name in its folder, and makes the name durable.
  void commit() { commit_as(path_); }
  void commit_as(const std::string& path);

 private:
  std::string path_;
  File file_;
  FileLock lock_;
  bool is_committed_ = false;
};

/// A new file without a name in the folder of `path`, for reading and writing.
[[nodiscard]] File open_nameless(const std::string& path);

}  // namespace snug::io
