// SPDX-License-Identifier: Apache-2.0
#include "io/stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <span>

#include "base/interrupted.h"
#include "io/buffered_file.h"
#include "io/file.h"
#include "io/sha256.h"
#include "snug/error.h"

namespace snug::io {
namespace {

constexpr size_t kStreamBufferBytes = size_t{256} << 10;
constexpr int kWaitMilliseconds = 200;
constexpr size_t kHashDigits = 16;

std::string shown_name(const std::string& path) {
  return path == kStandardInput ? "standard input" : path;
}

// A pipe's other end is waited for by poll, not by open, which hears no request to stop.
File open_stream(const std::string& path) {
  const int fd =
      path == kStandardInput ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : while_interrupted([&] {
        return ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
      });
  if (fd < 0) throw_system_error(shown_name(path), "read", errno);
  File file(fd, shown_name(path));
  struct stat status {};
  if (::fstat(fd, &status) == 0 && S_ISDIR(status.st_mode))
    throw_system_error(file.path(), "read", EISDIR);
  if (::isatty(fd) == 1)
    throw Error(ErrorCode::bad_data, file.path(), "is a terminal, and rows are expected",
                "pipe them in, or give a file");
  return file;
}

bool is_readable(const File& file) {
  pollfd wanted{.fd = file.fd(), .events = POLLIN, .revents = 0};
  const int ready = ::poll(&wanted, 1, kWaitMilliseconds);
  if (ready < 0 && errno != EINTR) throw_system_error(file.path(), "read", errno);
  return ready > 0;
}

/// The bytes that are there; 0 at the end, below 0 where there are none yet.
int64_t read_what_is_there(const File& file, std::span<std::byte> buffer) {
  const ssize_t got = ::read(file.fd(), buffer.data(), buffer.size());
  if (got < 0 && errno != EINTR && errno != EAGAIN) throw_system_error(file.path(), "read", errno);
  return got;
}

}  // namespace

bool is_stream(const std::string& path) {
  if (path == kStandardInput || path == "/dev/stdin" || path.starts_with("/dev/fd/") ||
      path.starts_with("/proc/self/fd/"))
    return true;
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

std::string copy_stream(const std::string& path, const std::string& folder,
                        const std::function<std::string(const std::string&)>& suffix_of,
                        const std::function<void(int64_t bytes)>& on_bytes) {
  const File stream = open_stream(path);
  TemporaryFile temporary(folder + "/stream",
                          {.what = "another process copies a stream into this file",
                           .hint = "wait for it, or use another cache_dir"});
  BufferedFile copy(temporary.duplicate());
  Sha256 hash;
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kStreamBufferBytes);
  for (;;) {
    on_bytes(copy.position());
    if (!is_readable(stream)) continue;
    const int64_t got = read_what_is_there(stream, {buffer.get(), kStreamBufferBytes});
    if (got == 0) break;
    if (got < 0) continue;
    hash.update(buffer.get(), got);
    copy.write({buffer.get(), static_cast<size_t>(got)});
  }
  if (copy.position() == 0)
    throw Error(ErrorCode::bad_data, stream.path(), "not a byte came out of it",
                "pipe rows in, or give a file");
  copy.sync();
  const std::string target = folder + "/stream-" + hash.finish().substr(0, kHashDigits) +
                             suffix_of(temporary.duplicate().path());
  temporary.commit_as(target);
  return target;
}

}  // namespace snug::io
