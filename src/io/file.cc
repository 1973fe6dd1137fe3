// SPDX-License-Identifier: Apache-2.0
// Descriptors: open, read, write, sync. Folders and paths are in paths.cc.
#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/interrupted.h"
#include "base/units.h"
#include "io/sha256.h"
#include "snug/error.h"
#include "snug/files.h"

namespace snug::io {
namespace {

constexpr int64_t kCopyChunkBytes = int64_t{256} << 10;
// One system call never moves more than this (Linux caps it just below 2 GiB anyway).
constexpr int64_t kCallBytes = int64_t{1} << 30;
constexpr int64_t kWaitingBytes = int64_t{2} << 20;

std::string hint_for(int error_number) {
  switch (error_number) {
    case ENOENT:
      return "check the path";
    case EACCES:
    case EPERM:
      return "check who may read and write it";
    case EROFS:
      return "the file system is read-only: choose another place";
    case ENOSPC:
      return "free some space or choose another disk; what was complete before is still there";
    case EDQUOT:
      return "the user's quota is used up; what was complete before is still there";
    case EFBIG:
      return "a limit on file sizes is in force (ulimit -f); what was complete before is still "
             "there";
    case EISDIR:
      return "this is a folder: give a file";
    case ENOTDIR:
      return "a part of the path is a file, not a folder";
    case ELOOP:
      return "links of the path lead back to one another: remove one";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    case EIO:
      return "the disk reports a fault: check it before going on";
    default:
      return {};
  }
}

bool is_out_of_space(int error_number) {
  return error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
}

int open_or_throw(const std::string& path, int flags, std::string_view operation) {
  const int fd = while_interrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0644); });
  if (fd < 0) throw_system_error(path, operation, errno);
  return fd;
}

}  // namespace

void throw_system_error(const std::string& path, std::string_view operation, int error_number,
                        int64_t needed_bytes) {
  if ((error_number == ENOENT || error_number == ELOOP) && is_dangling(path)) throw_dangling(path);
  std::string message = "cannot " + std::string(operation) + ": " + std::strerror(error_number);
  if (is_out_of_space(error_number) && needed_bytes >= 0) {
    message += " (" + std::to_string(needed_bytes) + " bytes more are needed here)";
  }
  throw Error(ErrorCode::io, path, message, hint_for(error_number));
}

File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      new_bytes_(other.new_bytes_),
      waiting_offset_(other.waiting_offset_),
      waiting_bytes_(other.waiting_bytes_) {}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
    path_ = std::move(other.path_);
    new_bytes_ = other.new_bytes_;
    waiting_offset_ = other.waiting_offset_;
    waiting_bytes_ = other.waiting_bytes_;
  }
  return *this;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

File File::open_read(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not wait for its other end; it has no effect on regular
  // files.
  File file(open_or_throw(path, O_RDONLY | O_NONBLOCK, "read"), path);
  struct stat status {};
  if (::fstat(file.fd_, &status) != 0) throw_system_error(path, "read", errno);
  if (S_ISDIR(status.st_mode)) throw_system_error(path, "read", EISDIR);
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::io, path, "cannot read: not a regular file", "give a file on a disk");
  }
  return file;
}

File File::create(const std::string& path) {
  return File(open_or_throw(path, O_RDWR | O_CREAT | O_TRUNC, "create"), path);
}

File File::open_or_create(const std::string& path) {
  return File(open_or_throw(path, O_RDWR | O_CREAT, "open"), path);
}

File File::append(const std::string& path) {
  return File(open_or_throw(path, O_WRONLY | O_CREAT | O_APPEND, "write"), path);
}

int64_t File::size_bytes() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) throw_system_error(path_, "read the size", errno);
  return status.st_size;
}

int64_t File::read_some_at(int64_t offset, std::byte* dst, int64_t bytes) const {
  SNUG_CHECK(offset >= 0 && bytes >= 0, "range of a read");
  int64_t done = 0;
  while (done < bytes) {
    const auto chunk = static_cast<size_t>(std::min(bytes - done, kCallBytes));
    const ssize_t got =
        while_interrupted([&] { return ::pread(fd_, dst + done, chunk, offset + done); });
    if (got < 0) throw_system_error(path_, "read", errno);
    if (got == 0) break;
    done += got;
  }
  return done;
}

void File::read_at(int64_t offset, std::byte* dst, int64_t bytes) const {
  const int64_t got = read_some_at(offset, dst, bytes);
  if (got != bytes) {
    throw Error(ErrorCode::bad_data, path_,
                "the file ends " + std::to_string(bytes - got) + " bytes too early (wanted " +
                    std::to_string(bytes) + " bytes at offset " + std::to_string(offset) + ")",
                "the file is truncated: get it again");
  }
}

void File::write_all(const void* src, int64_t bytes) {
  const auto* from = static_cast<const char*>(src);
  int64_t done = 0;
  while (done < bytes) {
    const auto chunk = static_cast<size_t>(std::min(bytes - done, kWaitingBytes));
    const ssize_t put = while_interrupted([&] { return ::write(fd_, from + done, chunk); });
    if (put < 0) throw_system_error(path_, "write", errno, bytes - done);
    // A short write without an error: the next call reports why.
    if (put == 0) throw_system_error(path_, "write", ENOSPC, bytes - done);
    done += put;
    new_bytes_ += put;
    if (new_bytes_ >= kWaitingBytes) bound_waiting_pages();
  }
}

void File::bound_waiting_pages() {
  const int64_t end = ::lseek(fd_, 0, SEEK_CUR);
  const int64_t bytes = std::exchange(new_bytes_, 0);
  if (end < bytes) return;  // a pipe
  const auto flush = [this](int64_t offset, int64_t length, unsigned flags) {
    if (while_interrupted([&] { return ::sync_file_range(fd_, offset, length, flags); }) == 0)
      return;
    // Devices and some file systems have no such thing.
    if (errno != EINVAL && errno != ESPIPE && errno != ENOSYS)
      throw_system_error(path_, "write", errno, length);
  };
  flush(end - bytes, bytes, SYNC_FILE_RANGE_WRITE);
  if (waiting_bytes_ > 0) {
    flush(waiting_offset_, waiting_bytes_,
          SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    release_cache(waiting_offset_, waiting_bytes_);
  }
  waiting_offset_ = end - bytes;
  waiting_bytes_ = bytes;
}

void File::write_all(std::string_view text) {
  write_all(text.data(), static_cast<int64_t>(text.size()));
}

void File::write_at(int64_t offset, const void* src, int64_t bytes) {
  SNUG_CHECK(offset >= 0 && bytes >= 0, "range of a write");
  const auto* from = static_cast<const char*>(src);
  int64_t done = 0;
  while (done < bytes) {
    const auto chunk = static_cast<size_t>(std::min(bytes - done, kCallBytes));
    const ssize_t put =
        while_interrupted([&] { return ::pwrite(fd_, from + done, chunk, offset + done); });
    if (put < 0) throw_system_error(path_, "write", errno, bytes - done);
    if (put == 0) throw_system_error(path_, "write", ENOSPC, bytes - done);
    done += put;
  }
}

void File::truncate(int64_t bytes) {
  if (while_interrupted([&] { return ::ftruncate(fd_, bytes); }) != 0)
    throw_system_error(path_, "set the size", errno, bytes);
}

void File::sync() {
  if (while_interrupted([&] { return ::fsync(fd_); }) == 0) return;
  // Pipes and character devices have nothing to force.
  if (errno != EINVAL && errno != EROFS) throw_system_error(path_, "force to the disk", errno);
}

void File::release_cache(int64_t offset, int64_t bytes) const noexcept {
  (void)::posix_fadvise(fd_, offset, bytes, POSIX_FADV_DONTNEED);
}

void File::expect_random_reads() const noexcept {
  (void)::posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM);
}

void File::close() {
  if (fd_ < 0) return;
  // Linux closes the descriptor even when it reports an error, so there is no second attempt.
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR)
    throw_system_error(path_, "close", errno);
}

std::string read_all(const std::string& path, int64_t max_bytes) {
  const File file = File::open_read(path);
  const int64_t bytes = file.size_bytes();
  if (bytes > max_bytes) {
    throw Error(ErrorCode::bad_data, path,
                "the file has " + format_bytes(bytes) + "; at most " + format_bytes(max_bytes) +
                    " are read here",
                "check that this is the file you meant");
  }
  std::string text;
  // Files of /proc report no size, so read until the end, never past the limit. The first read asks
  // for a byte more than there should be: text that grows would be in memory twice.
  int64_t done = 0;
  int64_t chunk = std::max<int64_t>(bytes + 1, 4096);
  while (true) {
    chunk = std::min(chunk, max_bytes + 1 - done);
    text.resize(static_cast<size_t>(done + chunk));
    const int64_t got =
        file.read_some_at(done, reinterpret_cast<std::byte*>(text.data()) + done, chunk);
    done += got;
    if (got < chunk) break;
    if (done > max_bytes) {
      throw Error(ErrorCode::bad_data, path,
                  "the file grew beyond " + format_bytes(max_bytes) + " while it was read",
                  "check that this is the file you meant");
    }
    chunk = 4096;
  }
  text.resize(static_cast<size_t>(done));
  return text;
}

std::string read_all_if_any(const std::string& path, int64_t max_bytes) {
  try {
    return read_all(path, max_bytes);
  } catch (const Error&) {
    return {};
  }
}

void write_file(const std::string& path, std::string_view text) {
  File file = File::create(path);
  file.write_all(text);
  file.sync();
  file.close();
}

std::string copy_file(const std::string& from, const std::string& to) {
  const File source = File::open_read(from);
  File target = File::create(to);
  Sha256 hash;
  std::vector<std::byte> chunk(static_cast<size_t>(kCopyChunkBytes));
  for (int64_t offset = 0;;) {
    const int64_t got = source.read_some_at(offset, chunk.data(), kCopyChunkBytes);
    hash.update(chunk.data(), got);
    target.write_all(chunk.data(), got);
    offset += got;
    if (got < kCopyChunkBytes) break;
  }
  target.sync();
  target.release_cache();
  target.close();
  return hash.finish();
}

}  // namespace snug::io

namespace snug {

void write_text(const std::string& file, std::string_view text) { io::replace_file(file, text); }

}  // namespace snug
