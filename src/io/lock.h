// SPDX-License-Identifier: Apache-2.0
// One run per output folder: an exclusive flock on <folder>/.snug.lock that holds the owner's
// process id. The kernel drops it when the process ends, however it ends, so there are no stale
// locks to clean up.
#pragma once

#include <string>

#include "io/file.h"

namespace snug::io {

inline constexpr const char* kLockFileName = ".snug.lock";

class FolderLock {
 public:
  FolderLock() = default;
  /// Locks an existing folder. Throws Error{bad_config} that names the other process if one holds
  /// it.
  explicit FolderLock(const std::string& folder);

  [[nodiscard]] bool is_held() const { return file_.is_open(); }

 private:
  File file_;
};

}  // namespace snug::io
