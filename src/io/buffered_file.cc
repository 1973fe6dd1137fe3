// SPDX-License-Identifier: Apache-2.0
#include "io/buffered_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/interrupted.h"
#include "snug/error.h"

namespace snug::io {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;
constexpr int64_t kReleaseBytes = int64_t{8} << 20;

File create(const std::string& path, int flags, mode_t mode) {
  const int fd = while_interrupted([&] {
    return ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | flags, mode);
  });
  if (fd < 0) throw_system_error(path, "create the file", errno);
  return {fd, path};
}

bool is_same_file(const File& file, const std::string& path) {
  struct stat held {};
  struct stat named {};
  return ::fstat(file.fd(), &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

}  // namespace

BufferedFile::BufferedFile(File file, int64_t position)
    : file_(std::move(file)),
      flushed_(position),
      released_(position),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)) {}

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
  // Dirty pages cannot be dropped: write them out first. A hint alone, a failure shows at sync().
  (void)::sync_file_range(
      file_.fd(), released_, flushed_ - released_,
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  file_.release_cache(released_, flushed_ - released_);
  released_ = flushed_;
}

void BufferedFile::sync() {
  flush();
  file_.sync();
}

void BufferedFile::write_at(int64_t offset, std::span<const std::byte> bytes) {
  file_.write_at(offset, bytes.data(), static_cast<int64_t>(bytes.size()));
}

void BufferedFile::read_at(int64_t offset, std::span<std::byte> bytes) const {
  file_.read_at(offset, bytes.data(), static_cast<int64_t>(bytes.size()));
}

// A left-over of a killed process is taken over; a file that another process holds, or has just
// finished, is not.
TemporaryFile::TemporaryFile(std::string path, const Busy& busy)
    : path_(std::move(path)), file_(create(path_ + ".tmp", 0, 0644)) {
  lock_ = FileLock(file_);
  if (!lock_.is_held() || !is_same_file(file_, file_.path()))
    throw Error(
        ErrorCode::io, file_.path(), busy.what,
        busy.hint + (lock_.owner().empty()
                         ? std::string()
                         : "; if " + lock_.owner() + " is no more, remove " + lock_.owner_file()));
  file_.truncate(0);
}

TemporaryFile::~TemporaryFile() {
  if (!is_committed_) ::unlink(file_.path().c_str());
}

File TemporaryFile::duplicate() const {
  const int fd = ::fcntl(file_.fd(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) throw_system_error(file_.path(), "open the file again", errno);
  return {fd, file_.path()};
}

void TemporaryFile::commit_as(const std::string& path) {
  if (::rename(file_.path().c_str(), path.c_str()) != 0)
    throw_system_error(path, "rename the finished file", errno);
  is_committed_ = true;
  sync_folder(parent_folder(path));
}

File open_nameless(const std::string& path) {
  const std::string name = path + ".index.tmp";
  ::unlink(name.c_str());
  File file = create(name, O_EXCL, 0600);
  if (::unlink(name.c_str()) != 0) throw_system_error(name, "remove the file", errno);
  return file;
}

}  // namespace snug::io
