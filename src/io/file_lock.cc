// SPDX-License-Identifier: Apache-2.0
#include "io/file_lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/interrupted.h"
#include "base/pieces.h"

namespace snug::io {
namespace {

constexpr int64_t kMaxBytes = 4096;

bool means_no_locks(int error_number) {
  return error_number == ENOSYS || error_number == ENOTSUP || error_number == EOPNOTSUPP ||
         error_number == ENOLCK;
}

// In the ticks of the machine since it started: a number that is used again has another. Empty
// where there is no such process, or it ended.
std::string start_of(const std::string& pid) {
  constexpr size_t kStart = 19;  // of the fields behind the name
  const std::string text = read_all_if_any("/proc/" + pid + "/stat", kMaxBytes);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  const std::vector<std::string_view> fields =
      words_in(std::string_view(text).substr(name_end + 1));
  if (fields.size() <= kStart || fields[0] == "Z" || fields[0] == "X") return {};
  return std::string(fields[kStart]);
}

// A process, wherever it runs: one line of the file.
struct Identity {
  std::string pid, start, boot, names, host;

  [[nodiscard]] std::string text() const {
    return pid + " " + start + " " + boot + " " + names + " " + host + "\n";
  }
  // Whether processes of the other are seen here under the numbers that it gives.
  [[nodiscard]] bool sees(const Identity& other) const {
    return boot != "?" && names != "?" && boot == other.boot && names == other.names;
  }
};

std::string or_unknown(std::string word) {
  while (!word.empty() && (word.back() == '\n' || word.back() == ' ')) word.pop_back();
  return word.empty() || word.find(' ') != std::string::npos ? "?" : word;
}

Identity own_identity() {
  char names[64] = {};
  const ssize_t length = ::readlink("/proc/self/ns/pid", names, sizeof names);
  char host[256] = {};
  (void)::gethostname(host, sizeof host - 1);
  const std::string pid = std::to_string(::getpid());
  return {.pid = pid,
          .start = or_unknown(start_of(pid)),
          .boot = or_unknown(read_all_if_any("/proc/sys/kernel/random/boot_id", kMaxBytes)),
          .names = or_unknown(std::string(names, length > 0 ? static_cast<size_t>(length) : 0)),
          .host = or_unknown(host)};
}

// Some fields stay empty where the file is not ours, or was cut off.
Identity parse(const std::string& text) {
  const std::vector<std::string_view> fields = words_in(text);
  const auto field = [&](size_t i) { return std::string(i < fields.size() ? fields[i] : ""); };
  return {
      .pid = field(0), .start = field(1), .boot = field(2), .names = field(3), .host = field(4)};
}

bool is_gone(const Identity& owner, const Identity& own) {
  return own.sees(owner) && owner.start != "?" && start_of(owner.pid) != owner.start;
}

// False where there is one. On network file systems a link may be made although the answer is lost.
bool link_new(const std::string& from, const std::string& to) {
  if (::link(from.c_str(), to.c_str()) == 0) return true;
  const int error_number = errno;
  struct stat status {};
  if (::stat(from.c_str(), &status) == 0 && status.st_nlink == 2) return true;
  if (error_number != EEXIST) throw_system_error(to, "create", error_number);
  return false;
}

// flock's lock is the open file's, and a forked process has it open as well: it would hold the lock
// for as long as it lives. There the descriptor becomes one of /dev/null, until who has it closes
// it. Fixed places, since in a process that was just forked nothing may be allocated; a lock
// without one is kept by such processes.
constexpr size_t kMostHeld = 64;
std::array<std::atomic<int>, kMostHeld>& held_locks() {
  static std::array<std::atomic<int>, kMostHeld> fds;  // plus 1; 0: a place that is free
  return fds;
}

void let_go_in_child() {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (std::atomic<int>& held : held_locks()) {
    const int fd = held.exchange(0) - 1;
    if (fd < 0) continue;
    if (nothing < 0 || ::dup3(nothing, fd, O_CLOEXEC) < 0) ::close(fd);
  }
  if (nothing >= 0) ::close(nothing);
}

void note_held(int fd) {
  static const int is_told = ::pthread_atfork(nullptr, nullptr, let_go_in_child);
  (void)is_told;
  for (std::atomic<int>& held : held_locks()) {
    int free = 0;
    if (held.compare_exchange_strong(free, fd + 1)) return;
  }
}

void forget_held(int fd) {
  for (std::atomic<int>& held : held_locks()) {
    int place = fd + 1;
    if (held.compare_exchange_strong(place, 0)) return;
  }
}

}  // namespace

FileLock::FileLock(const File& file, bool uses_flock) : process_(::getpid()) {
  if (uses_flock) {
    is_held_ = while_interrupted([&] { return ::flock(file.fd(), LOCK_EX | LOCK_NB); }) == 0;
    if (is_held_) {
      fd_ = file.fd();
      note_held(fd_);
      return;
    }
    if (errno == EWOULDBLOCK) return;
    if (!means_no_locks(errno)) throw_system_error(file.path(), "lock", errno);
  }
  owner_file_ = file.path() + ".owner";
  take_owner_file();
}

// Written under a name of its own and linked, so that whoever sees the file sees all of it.
void FileLock::take_owner_file() {
  const Identity own = own_identity();
  const std::string fresh = owner_file_ + "-" + own.host + "-" + own.pid;
  const std::string aside = fresh + "-gone";
  write_file(fresh, own.text());
  is_held_ = link_new(fresh, owner_file_);
  const std::string text = is_held_ ? "" : read_all_if_any(owner_file_, kMaxBytes);
  if (!is_held_ && text.empty()) is_held_ = link_new(fresh, owner_file_);  // it has just gone
  if (!is_held_ && is_gone(parse(text), own) && ::rename(owner_file_.c_str(), aside.c_str()) == 0) {
    // Another process may have done the same a moment ago: then this one's is put back.
    if (read_all_if_any(aside, kMaxBytes) == text) {
      is_held_ = link_new(fresh, owner_file_);
    } else {
      (void)link_new(aside, owner_file_);
    }
    ::unlink(aside.c_str());
  }
  ::unlink(fresh.c_str());
  sync_folder(parent_folder(owner_file_));
  if (is_held_) return;
  const Identity owner = parse(text);
  owner_ = (owner.pid.empty() ? std::string("a process") : "process " + owner.pid) +
           (owner.host.empty() ? std::string() : " on " + owner.host);
}

FileLock::FileLock(FileLock&& other) noexcept
    : is_held_(std::exchange(other.is_held_, false)),
      fd_(std::exchange(other.fd_, -1)),
      process_(other.process_),
      owner_file_(std::move(other.owner_file_)),
      owner_(std::move(other.owner_)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(is_held_, other.is_held_);
  std::swap(fd_, other.fd_);
  std::swap(process_, other.process_);
  std::swap(owner_file_, other.owner_file_);
  std::swap(owner_, other.owner_);
  return *this;
}

FileLock::~FileLock() {
  if (!is_held_ || process_ != ::getpid()) return;
  if (!owner_file_.empty()) ::unlink(owner_file_.c_str());
  if (fd_ < 0) return;
  forget_held(fd_);
  (void)::flock(fd_, LOCK_UN);  // a process that was just forked may still have it open
}

}  // namespace snug::io
