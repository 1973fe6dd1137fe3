// SPDX-License-Identifier: Apache-2.0
// One run per output folder: an exclusive lock on <folder>/.snug.lock, which holds the owner's
// process id. Under flock there are no stale locks to clean up; elsewhere see file_lock.h.
#pragma once

#include <string>

#include "io/file_lock.h"

namespace snug::io {

inline constexpr const char* kLockFileName = ".snug.lock";

class FolderLock {
 public:
  FolderLock() = default;
  /// Locks an existing folder. Throws Error{bad_config} that names the other process if one holds
  /// it. `uses_flock` false: as on a file system without it.
  explicit FolderLock(const std::string& folder, bool uses_flock = true);

  [[nodiscard]] bool is_held() const { return file_.is_open(); }
  /// What there is to know of a lock that the kernel does not hold; empty where it does.
  [[nodiscard]] std::string notice() const;

 private:
  File file_;
  FileLock lock_;
};

}  // namespace snug::io
