// SPDX-License-Identifier: Apache-2.0
// The byte budget as the user writes it, and what the machine and this process have. Linux only:
// reads /proc and the control groups. Functions that take `root` read below it, so tests can show
// them another machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

/// A budget before the machine is known: "900MiB", "4096", "60%", "-512MiB" (all but), "auto".
struct MemorySpec {
  enum class Kind : uint8_t { automatic, bytes, percent, all_but };
  Kind kind = Kind::automatic;
  int64_t bytes = 0;   // of `bytes` and `all_but`
  double percent = 0;  // of `percent`, in (0, 100]
  bool operator==(const MemorySpec&) const = default;
};

/// Throws Error{bad_config} that names `key`.
[[nodiscard]] MemorySpec parse_memory(std::string_view text, std::string_view key = "memory");
/// The text that parse_memory reads back to the same value.
[[nodiscard]] std::string to_string(const MemorySpec& spec);

/// What becomes of a process that takes more.
enum class Excess : uint8_t {
  killed,   // limits of control groups, and what the machine has
  refused,  // it is given no more: limits of the process's address space and data (ulimit)
  slowed    // memory.high of a control group: it stands still most of the time
};

struct MemoryLimit {
  int64_t bytes = 0;
  /// "cgroup v1 limit of /jobs/7", "cgroup v2 memory.high of /", "address space (ulimit -v)",
  /// "available memory".
  std::string source;
  Excess excess = Excess::killed;
};

/// Every limit that this process has: of its control group and all ancestors (v1 or v2), and those
/// of the process (ulimit -v, -d) without what it maps and never touches: code, and the stacks of a
/// thread for each core.
[[nodiscard]] std::vector<MemoryLimit> memory_limits(const std::string& root = "/");

/// What `auto` sees: the tightest of memory_limits(), or the memory that is available now if that
/// is less or there is no limit.
[[nodiscard]] MemoryLimit machine_memory(const std::string& root = "/");

/// The tightest limit by which a process is killed; nothing where there is none.
[[nodiscard]] std::optional<MemoryLimit> group_memory(const std::string& root = "/");

/// What other processes leave to this one now, its own resident set included: of each limit of
/// memory_limits(), and of the machine's memory. Pages of files count as free, since the system
/// drops them.
[[nodiscard]] MemoryLimit memory_left(const std::string& root = "/");

/// The budget in bytes, rounded down to whole pages. A budget of less than one page is
/// Error{bad_config}. `bytes` may exceed what the machine has: planning for another machine is
/// allowed.
[[nodiscard]] int64_t resolve_memory(const MemorySpec& spec, const std::string& root = "/");

/// Resident set of this process now (VmRSS).
[[nodiscard]] int64_t current_rss_bytes();
/// Highest resident set since the start or the last reset (VmHWM).
[[nodiscard]] int64_t peak_rss_bytes();
/// Starts a new peak; false where the kernel does not permit it.
bool reset_peak_rss();

}  // namespace snug
