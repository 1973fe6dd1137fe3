// SPDX-License-Identifier: Apache-2.0
// An exclusive lock on an open file: flock, which the kernel drops when the process ends, however
// it ends; a process that is forked from it has no part in it. Some network file systems have none;
// a file FILE.owner that names its process stands for it there. That of a process which is gone is
// taken over where that can be told: on the same machine since it started.
#pragma once

#include <cstdint>
#include <string>

#include "io/file.h"

namespace snug::io {

class FileLock {
 public:
  FileLock() = default;
  /// Takes the lock if nobody has it. `uses_flock` false: as on a file system without it.
  explicit FileLock(const File& file, bool uses_flock = true);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  /// The lock ends, and the file that stands for it goes.
  ~FileLock();

  [[nodiscard]] bool is_held() const { return is_held_; }
  /// Who holds the lock where this process does not: "process 12 on host7", where a file says it,
  /// and what to remove if that process is no more. Empty under flock.
  [[nodiscard]] const std::string& owner() const { return owner_; }
  /// The file that stands for the lock; empty under flock.
  [[nodiscard]] const std::string& owner_file() const { return owner_file_; }

 private:
  void take_owner_file();

  bool is_held_ = false;
  int fd_ = -1;           // that flock's lock is of
  int64_t process_ = -1;  // that has taken it
  std::string owner_file_;
  std::string owner_;
};

}  // namespace snug::io
