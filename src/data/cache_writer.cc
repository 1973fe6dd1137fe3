// SPDX-License-Identifier: Apache-2.0
// Files of cache_writer.h.
#include "data/cache_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/interrupted.h"
#include "data/source.h"
#include "snug/error.h"

namespace snug::data {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;
constexpr int64_t kReleaseBytes = int64_t{8} << 20;

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

int open_file(const std::string& path, int flags, mode_t mode = 0) {
  return while_interrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); });
}

// Makes a new name durable. What a file system cannot do, or the folder's permissions forbid, is
// no error: a lost cache is made again.
void sync_folder(const std::string& folder) {
  const int fd = open_file(folder, O_RDONLY | O_DIRECTORY);
  if (fd < 0 && errno == EACCES) return;
  if (fd < 0) throw io_error(folder, "cannot open the folder", errno);
  const int status = while_interrupted([&] { return ::fsync(fd); });
  const int reason = status == 0 || errno == EINVAL || errno == ENOTSUP ? 0 : errno;
  ::close(fd);
  if (reason != 0) throw io_error(folder, "cannot force the folder to the disk", reason);
}

bool is_same_file(int fd, const std::string& path) {
  struct stat held {};
  struct stat named {};
  return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

}  // namespace

BufferedFile::BufferedFile(int fd, std::string path, int64_t position)
    : fd_(fd),
      path_(std::move(path)),
      flushed_(position),
      released_(position),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)) {}

BufferedFile::~BufferedFile() { ::close(fd_); }

void BufferedFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (used_ == kBufferBytes) flush();
    const size_t count = std::min(bytes.size(), kBufferBytes - used_);
    std::memcpy(buffer_.get() + used_, bytes.data(), count);
    used_ += count;
    bytes = bytes.subspan(count);
  }
}

void BufferedFile::flush() {
  write_at(flushed_, std::span(buffer_.get(), used_));
  flushed_ += static_cast<int64_t>(used_);
  used_ = 0;
  if (flushed_ - released_ < kReleaseBytes) return;
  // Dirty pages cannot be dropped: write them out first. Both calls are hints, a failure shows at
  // sync().
  (void)::sync_file_range(
      fd_, released_, flushed_ - released_,
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  (void)::posix_fadvise(fd_, released_, flushed_ - released_, POSIX_FADV_DONTNEED);
  released_ = flushed_;
}

void BufferedFile::sync() {
  flush();
  if (while_interrupted([&] { return ::fsync(fd_); }) != 0)
    throw io_error(path_, "writing failed", errno);
}

void BufferedFile::write_at(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put =
        while_interrupted([&] { return ::pwrite(fd_, bytes.data(), bytes.size(), offset); });
    if (put < 0) throw io_error(path_, "writing failed", errno);
    offset += put;
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
}

void BufferedFile::read_at(int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got =
        while_interrupted([&] { return ::pread(fd_, bytes.data(), bytes.size(), offset); });
    if (got < 0) throw io_error(path_, "reading failed", errno);
    if (got == 0) throw Error(ErrorCode::io, path_, "the file became shorter while it was written");
    offset += got;
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
}

TemporaryFile::TemporaryFile(std::string path)
    : path_(std::move(path)), temporary_path_(path_ + ".tmp") {
  fd_ = open_file(temporary_path_, O_RDWR | O_CREAT | O_NOFOLLOW, 0644);
  if (fd_ < 0) throw io_error(temporary_path_, "cannot create the file", errno);
  try {
    take_over();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

// A left-over of a killed process is taken over; a file that another process holds, or has just
// finished, is not.
void TemporaryFile::take_over() {
  const bool is_locked = while_interrupted([&] { return ::flock(fd_, LOCK_EX | LOCK_NB); }) == 0;
  if (!is_locked && errno != EWOULDBLOCK)
    throw io_error(temporary_path_, "cannot lock the file", errno);
  if (!is_locked || !is_same_file(fd_, temporary_path_)) {
    throw Error(ErrorCode::io, temporary_path_, "another process is writing this token cache",
                "wait for it, or use another output_dir");
  }
  if (while_interrupted([&] { return ::ftruncate(fd_, 0); }) != 0)
    throw io_error(temporary_path_, "cannot empty the file", errno);
}

TemporaryFile::~TemporaryFile() {
  if (!is_committed_) ::unlink(temporary_path_.c_str());
  ::close(fd_);
}

int TemporaryFile::duplicate_fd() const {
  const int fd = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) throw io_error(temporary_path_, "cannot open the file", errno);
  return fd;
}

void TemporaryFile::commit() {
  if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    throw io_error(path_, "cannot rename the finished file", errno);
  }
  is_committed_ = true;
  sync_folder(folder_of(path_));
}

int open_nameless(const std::string& path) {
  const std::string name = path + ".index.tmp";
  ::unlink(name.c_str());
  const int fd = open_file(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (fd < 0) throw io_error(name, "cannot create the file", errno);
  if (::unlink(name.c_str()) != 0) {
    const int reason = errno;
    ::close(fd);
    throw io_error(name, "cannot remove the file", reason);
  }
  return fd;
}

}  // namespace snug::data
