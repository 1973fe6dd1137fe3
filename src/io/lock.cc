// SPDX-License-Identifier: Apache-2.0
#include "io/lock.h"

#include <unistd.h>

#include <utility>

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
  return pid.empty() ? pid : "process " + pid;
}

}  // namespace

FolderLock::FolderLock(const std::string& folder, bool uses_flock) {
  File file = File::open_or_create(folder + "/" + kLockFileName);
  FileLock lock(file, uses_flock);
  if (!lock.is_held()) {
    const std::string owner = lock.owner().empty() ? owner_of(file) : lock.owner();
    std::string hint = "wait for that run, stop it, or give another output_dir";
    if (!lock.owner_file().empty())
      hint += "; if it is no more (its machine was switched off, say), remove " + lock.owner_file();
    throw Error(
        ErrorCode::bad_config, folder,
        "the folder is in use by another run" + (owner.empty() ? owner : " (" + owner + ")"), hint);
  }
  file.truncate(0);
  const std::string pid = std::to_string(::getpid()) + "\n";
  file.write_at(0, pid.data(), static_cast<int64_t>(pid.size()));
  file_ = std::move(file);
  lock_ = std::move(lock);
}

std::string FolderLock::notice() const {
  if (lock_.owner_file().empty()) return {};
  return "the file system of " + parent_folder(lock_.owner_file()) +
         " has no locks (flock): " + lock_.owner_file() +
         " keeps other runs out. Where a run is killed, the next on the same machine takes it "
         "over; on another, or after a restart of the machine, remove it by hand";
}

}  // namespace snug::io
