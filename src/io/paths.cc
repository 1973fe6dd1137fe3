// SPDX-License-Identifier: Apache-2.0
// The part of file.h that works on names: folders, existence, renames, removal.
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/interrupted.h"
#include "base/units.h"
#include "io/file.h"
#include "snug/error.h"

namespace snug::io {

namespace {

// Only these mean that nothing is there; a disk that fails is not an empty one.
bool means_missing(int error_number) {
  return error_number == ENOENT || error_number == ENOTDIR || error_number == ELOOP ||
         error_number == ENAMETOOLONG;
}

}  // namespace

int64_t bytes_of_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw_system_error(path, "read", errno);
  return int64_t{status.st_size};
}

bool file_exists(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return S_ISREG(status.st_mode);
  if (!means_missing(errno)) throw_system_error(path, "look at the file", errno);
  return false;
}

bool is_folder(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return S_ISDIR(status.st_mode);
  if (!means_missing(errno)) throw_system_error(path, "look at the folder", errno);
  return false;
}

bool is_link(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return S_ISLNK(status.st_mode);
  if (!means_missing(errno)) throw_system_error(path, "look at it", errno);
  return false;
}

bool anything_at(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return true;
  if (!means_missing(errno)) throw_system_error(path, "look at it", errno);
  return false;
}

void require_free_disk(const std::string& target, int64_t bytes) {
  const int64_t free_bytes = free_disk_bytes(parent_folder(target));
  if (free_bytes >= bytes) return;
  throw Error(ErrorCode::io, target,
              "cannot write: " + format_bytes(bytes) + " (" + std::to_string(bytes) +
                  " bytes) are needed and " + format_bytes(free_bytes) + " are free",
              "free some space or choose another disk; what was complete before is still there");
}

std::string absolute_path(const std::string& path) {
  if (path.starts_with('/')) return path;
  const std::unique_ptr<char, decltype(&std::free)> here(::getcwd(nullptr, 0), &std::free);
  if (here == nullptr) throw_system_error(path, "find the working directory", errno);
  return std::string(here.get()) + "/" + path;
}

std::string parent_folder(const std::string& path) {
  size_t end = path.size();
  while (end > 1 && path[end - 1] == '/') --end;
  const size_t slash = path.rfind('/', end == 0 ? 0 : end - 1);
  if (slash == std::string::npos) return ".";
  size_t parent_end = slash;
  while (parent_end > 1 && path[parent_end - 1] == '/') --parent_end;
  return parent_end == 0 ? "/" : path.substr(0, parent_end);
}

bool is_dangling(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode) &&
         ::stat(path.c_str(), &status) != 0 && (errno == ENOENT || errno == ELOOP);
}

void throw_dangling(const std::string& path) {
  struct stat status {};
  const bool is_loop = ::stat(path.c_str(), &status) != 0 && errno == ELOOP;
  char target[4096];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
  throw Error(ErrorCode::io, path,
              "is a symbolic link to " +
                  (length > 0 ? "'" + std::string(target, static_cast<size_t>(length)) + "'"
                              : std::string("something")) +
                  (is_loop ? ", from where links lead back to it" : ", which does not exist"),
              is_loop ? "remove one of the links" : "create what it points to, or remove the link");
}

bool has_file(const std::string& path) {
  if (!anything_at(path)) return false;
  if (is_dangling(path)) throw_dangling(path);
  if (is_folder(path)) {
    throw Error(ErrorCode::io, path, "is a folder, not a file",
                "put the file in its place, or remove the folder");
  }
  if (file_exists(path)) return true;
  throw Error(ErrorCode::io, path, "is not a regular file",
              "put a file on a disk in its place, or remove it");
}

void make_folders(const std::string& path) {
  if (path.empty()) throw Error(ErrorCode::io, path, "cannot create a folder without a name");
  if (::mkdir(path.c_str(), 0755) == 0) return;
  if (errno == ENOENT) {
    const std::string parent = parent_folder(path);
    if (parent == path) throw_system_error(path, "create the folder", ENOENT);
    make_folders(parent);
    if (::mkdir(path.c_str(), 0755) == 0) return;
  }
  // Another process may have made it meanwhile.
  const int error_number = errno;
  if (is_folder(path)) return;
  if (is_dangling(path)) throw_dangling(path);
  throw_system_error(path, "create the folder", error_number == EEXIST ? ENOTDIR : error_number,
                     4096);
}

void require_writable_folder(const std::string& path) {
  // Permissions alone do not tell: root has them in /proc, too.
  std::string file = path + "/.snug-XXXXXX";
  const int fd = ::mkstemp(file.data());
  if (fd < 0) throw_system_error(path, "write there", errno);
  ::close(fd);
  ::unlink(file.c_str());
}

namespace {

std::string temporary_files() {
  const char* base = std::getenv("TMPDIR");
  return base != nullptr && *base != '\0' ? base : "/tmp";
}

}  // namespace

bool is_own_folder(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::string own_temporary_folder() {
  return temporary_files() + "/snug-" + std::to_string(::geteuid());
}

void make_own_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    throw_system_error(path, "create the folder", errno);
  if (!is_own_folder(path))
    throw Error(ErrorCode::io, path, "it is no folder that this user alone may write to",
                "remove it");
}

std::string make_temporary_folder() {
  std::string path = temporary_files() + "/snug-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) throw_system_error(path, "create the folder", errno);
  return path;
}

std::vector<std::string> list_folder(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), &::closedir);
  if (!folder) throw_system_error(path, "list the folder", errno);
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) throw_system_error(path, "list the folder", errno);
  std::sort(names.begin(), names.end());
  return names;
}

void remove_all(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return;
    throw_system_error(path, "remove", errno);
  }
  if (S_ISDIR(status.st_mode)) {
    for (const std::string& name : list_folder(path)) remove_all(path + "/" + name);
    if (::rmdir(path.c_str()) != 0 && errno != ENOENT) throw_system_error(path, "remove", errno);
    return;
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw_system_error(path, "remove", errno);
}

bool lies_in_memory(const std::string& path) {
  struct statfs status {};
  if (::statfs(path.c_str(), &status) != 0) throw_system_error(path, "look at its disk", errno);
  return status.f_type == TMPFS_MAGIC || status.f_type == RAMFS_MAGIC;
}

int64_t free_disk_bytes(const std::string& path) {
  struct statvfs status {};
  if (::statvfs(path.c_str(), &status) != 0) throw_system_error(path, "read the free space", errno);
  return static_cast<int64_t>(status.f_bavail) * static_cast<int64_t>(status.f_frsize);
}

void sync_folder(const std::string& path) {
  const int fd =
      while_interrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (fd < 0) throw_system_error(path, "open the folder", errno);
  int error_number = 0;
  // Some file systems (network, FUSE) have no fsync of folders; they order metadata themselves.
  if (while_interrupted([&] { return ::fsync(fd); }) != 0)
    error_number = errno == EINVAL || errno == ENOTSUP ? 0 : errno;
  ::close(fd);
  if (error_number != 0) throw_system_error(path, "force to the disk", error_number);
}

bool is_replaceable(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return S_ISREG(status.st_mode);
  if (!means_missing(errno)) throw_system_error(path, "look at it", errno);
  return true;
}

void replace_file(const std::string& path, std::string_view text) {
  if (!is_replaceable(path)) return write_file(path, text);
  const std::string temporary = path + ".snug-new";
  try {
    write_file(temporary, text);
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      throw_system_error(path, "replace the file", errno);
    }
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder(parent_folder(path));
}

}  // namespace snug::io
