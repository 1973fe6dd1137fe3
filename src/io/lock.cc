// SPDX-License-Identifier: Apache-2.0
#include "io/lock.h"

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/interrupted.h"
#include "snug/error.h"

namespace snug::io {
namespace {

// The pid in the lock file is for people; the lock itself is the kernel's.
std::string owner_of(const File& file) {
  char text[32] = {};
  const int64_t bytes = file.read_some_at(0, reinterpret_cast<std::byte*>(text), sizeof text - 1);
  std::string pid(text, static_cast<size_t>(bytes));
  const size_t end = pid.find_first_not_of("0123456789");
  if (end != std::string::npos) pid.resize(end);
  return pid;
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) {
  File file = File::open_or_create(folder + "/" + kLockFileName);
  if (while_interrupted([&] { return ::flock(file.fd(), LOCK_EX | LOCK_NB); }) != 0) {
    if (errno != EWOULDBLOCK) throw_system_error(file.path(), "lock", errno);
    const std::string pid = owner_of(file);
    throw Error(ErrorCode::bad_config, folder,
                "the folder is in use by another run" +
                    (pid.empty() ? std::string() : " (process " + pid + ")"),
                "wait for that run, stop it, or give another output_dir");
  }
  file.truncate(0);
  const std::string pid = std::to_string(::getpid()) + "\n";
  file.write_at(0, pid.data(), static_cast<int64_t>(pid.size()));
  file_ = std::move(file);
}

}  // namespace snug::io
