// SPDX-License-Identifier: Apache-2.0
// A library to preload: counts the system calls of a process that concern given folders, and makes
// one of them fail or end the process. Knows nothing of Snug; run_faults.py drives it.
//
//   SNUG_FAULT_PATHS  folders, separated by colons; calls on paths and descriptors below them
//   count,
//                     and anonymous mappings of 1 MiB or more
//   SNUG_FAULT_AT     the number of the call, from 1; 0 or unset: none, every call is logged
//   SNUG_FAULT_KIND   kill (before the call), torn (half of a write, then kill), short (half of the
//                     bytes), or the name of an errno: ENOSPC, EIO, EINTR, ENOMEM
//   SNUG_FAULT_LOG    file for lines "operation path"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>

namespace {

constexpr int kDescriptors = 1024;
constexpr size_t kPathBytes = 512;
constexpr size_t kCountedMapping = size_t{1} << 20;

char open_paths[kDescriptors][kPathBytes];  // of counted descriptors; empty: not counted
std::atomic<long> calls{0};

const char* variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

bool is_kind(const char* kind) { return strcmp(variable("SNUG_FAULT_KIND"), kind) == 0; }

bool is_counted(const char* path) {
  if (path == nullptr) return false;
  for (const char* begin = variable("SNUG_FAULT_PATHS"); *begin != '\0';) {
    const char* end = strchrnul(begin, ':');
    const auto length = static_cast<size_t>(end - begin);
    if (length > 0 && strncmp(path, begin, length) == 0) return true;
    begin = *end == '\0' ? end : end + 1;
  }
  return false;
}

const char* path_of(int fd) {
  return fd >= 0 && fd < kDescriptors && open_paths[fd][0] != '\0' ? open_paths[fd] : nullptr;
}

void note_open(int fd, const char* path) {
  if (fd >= 0 && fd < kDescriptors) snprintf(open_paths[fd], kPathBytes, "%s", path);
}

void log_call(const char* operation, const char* path) {
  const char* file = variable("SNUG_FAULT_LOG");
  if (*file == '\0') return;
  const long fd = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (fd < 0) return;
  char line[kPathBytes + 64];
  const int bytes = snprintf(line, sizeof line, "%s %s\n", operation, path);
  syscall(SYS_write, fd, line, bytes);
  syscall(SYS_close, fd);
}

[[noreturn]] void kill_here() {
  while (true) syscall(SYS_kill, getpid(), 9);
}

// Counts one call. True: it is the chosen one (a kill has happened by then).
bool is_chosen(const char* operation, const char* path) {
  const long number = ++calls;
  const long chosen = atol(variable("SNUG_FAULT_AT"));
  if (chosen == 0) log_call(operation, path);
  if (number != chosen) return false;
  log_call(operation, path);
  if (is_kind("kill")) kill_here();
  return true;
}

// Sets errno and returns true where the chosen call is to fail.
bool fails(const char* operation, const char* path) {
  if (path == nullptr || !is_chosen(operation, path)) return false;
  constexpr struct {
    const char* name;
    int number;
  } kErrors[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO}, {"EINTR", EINTR}, {"ENOMEM", ENOMEM}};
  for (const auto& error : kErrors) {
    if (!is_kind(error.name)) continue;
    errno = error.number;
    return true;
  }
  return false;
}

template <class Function>
Function real(const char* name, Function) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}
#define REAL(name) (real(#name, &::name))

// Half of the bytes of the chosen read or write; with "torn" the process ends after them.
enum class Way { in, out };
struct Transfer {
  size_t bytes;
  bool ends_process = false;
  bool fails = false;
};
Transfer transfer(const char* operation, int fd, size_t bytes, Way way) {
  const char* path = path_of(fd);
  if (path == nullptr || !is_chosen(operation, path)) return {bytes};
  const bool is_torn = way == Way::out && is_kind("torn");
  if (is_torn || is_kind("short")) return {bytes > 1 ? bytes / 2 : bytes, is_torn};
  errno = is_kind("ENOSPC") ? ENOSPC : is_kind("EINTR") ? EINTR : EIO;
  return {bytes, false, true};
}

ssize_t finish(const Transfer& transfer, ssize_t done) {
  if (transfer.ends_process) kill_here();
  return done;
}

// Descriptors are closed even where close() reports an error, as Linux does.
int close_counted(int fd) {
  const char* path = path_of(fd);
  if (path == nullptr) return REAL(close)(fd);
  const bool must_fail = fails("close", path);
  const int error_number = errno;
  open_paths[fd][0] = '\0';
  const int status = REAL(close)(fd);
  if (!must_fail) return status;
  errno = error_number;
  return -1;
}

const char* open_name(int flags) {
  return (flags & O_CREAT) != 0            ? "create"
         : (flags & O_ACCMODE) == O_RDONLY ? "open"
                                           : "open_write";
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  const bool counts = is_counted(path);
  if (counts && fails(open_name(flags), path)) return -1;
  const auto fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  if (counts) note_open(fd, path);
  return fd;
}

FILE* fopen64(const char* path, const char* mode) {
  const bool counts = is_counted(path);
  if (counts && fails(strchr(mode, 'r') != nullptr ? "fopen" : "fcreate", path)) return nullptr;
  FILE* file = REAL(fopen64)(path, mode);
  if (counts && file != nullptr) note_open(fileno(file), path);
  return file;
}

int fclose(FILE* file) {
  const int fd = fileno(file);
  const char* path = path_of(fd);
  const bool must_fail = path != nullptr && fails("close", path);
  const int error_number = errno;
  if (path != nullptr) open_paths[fd][0] = '\0';
  const int status = REAL(fclose)(file);
  if (!must_fail) return status;
  errno = error_number;
  return EOF;
}

int close(int fd) { return close_counted(fd); }

ssize_t read(int fd, void* buffer, size_t bytes) {
  const Transfer part = transfer("read", fd, bytes, Way::in);
  return part.fails ? -1 : finish(part, REAL(read)(fd, buffer, part.bytes));
}

ssize_t pread(int fd, void* buffer, size_t bytes, off_t offset) {
  const Transfer part = transfer("pread", fd, bytes, Way::in);
  return part.fails ? -1 : finish(part, REAL(pread)(fd, buffer, part.bytes, offset));
}

ssize_t write(int fd, const void* buffer, size_t bytes) {
  const Transfer part = transfer("write", fd, bytes, Way::out);
  return part.fails ? -1 : finish(part, REAL(write)(fd, buffer, part.bytes));
}

ssize_t pwrite(int fd, const void* buffer, size_t bytes, off_t offset) {
  const Transfer part = transfer("pwrite", fd, bytes, Way::out);
  return part.fails ? -1 : finish(part, REAL(pwrite)(fd, buffer, part.bytes, offset));
}

ssize_t writev(int fd, const iovec* parts, int count) {
  const char* path = path_of(fd);
  if (path == nullptr) return REAL(writev)(fd, parts, count);
  const Transfer part = transfer("write", fd, parts[0].iov_len, Way::out);
  if (part.fails) return -1;
  const bool is_whole = !part.ends_process && part.bytes == parts[0].iov_len;
  return finish(part, is_whole ? REAL(writev)(fd, parts, count)
                               : REAL(write)(fd, parts[0].iov_base, part.bytes));
}

int fsync(int fd) { return fails("fsync", path_of(fd)) ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return fails("fsync", path_of(fd)) ? -1 : REAL(fdatasync)(fd); }
int ftruncate(int fd, off_t bytes) {
  return fails("ftruncate", path_of(fd)) ? -1 : REAL(ftruncate)(fd, bytes);
}
int flock(int fd, int operation) {
  return fails("flock", path_of(fd)) ? -1 : REAL(flock)(fd, operation);
}
int fstat(int fd, struct stat* status) {
  return fails("stat", path_of(fd)) ? -1 : REAL(fstat)(fd, status);
}

#define SNUG_FAULT_ON_PATH(name, call) \
  return is_counted(path) && fails(#name, path) ? -1 : REAL(name) call

int stat(const char* path, struct stat* status) { SNUG_FAULT_ON_PATH(stat, (path, status)); }
int lstat(const char* path, struct stat* status) { SNUG_FAULT_ON_PATH(lstat, (path, status)); }
int statvfs(const char* path, struct statvfs* status) {
  SNUG_FAULT_ON_PATH(statvfs, (path, status));
}
int mkdir(const char* path, mode_t mode) { SNUG_FAULT_ON_PATH(mkdir, (path, mode)); }
int rmdir(const char* path) { SNUG_FAULT_ON_PATH(rmdir, (path)); }
int unlink(const char* path) { SNUG_FAULT_ON_PATH(unlink, (path)); }
int rename(const char* path, const char* to) { SNUG_FAULT_ON_PATH(rename, (path, to)); }
int renameat2(int from_folder, const char* path, int to_folder, const char* to, unsigned flags) {
  SNUG_FAULT_ON_PATH(renameat2, (from_folder, path, to_folder, to, flags));
}

DIR* opendir(const char* path) {
  return is_counted(path) && fails("opendir", path) ? nullptr : REAL(opendir)(path);
}

void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  const bool counts = (flags & MAP_ANONYMOUS) != 0 && bytes >= kCountedMapping;
  if (counts && fails("mmap", "(memory)")) return MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, fd, offset));
}

}  // extern "C"
