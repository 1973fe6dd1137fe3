// SPDX-License-Identifier: Apache-2.0
// The limits of the process's control group and all its ancestors and its own (ulimit), the memory
// available now, and what other processes leave of them. Both hierarchies may be mounted at once;
// whichever holds the memory controller has the files.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "base/numbers.h"
#include "base/pieces.h"
#include "base/threads.h"
#include "base/units.h"
#include "config/cores.h"
#include "io/file.h"
#include "snug/error.h"
#include "snug/memory.h"

namespace snug {
namespace {

constexpr int64_t kMaxProcBytes = int64_t{8} << 20;
// Version 1 writes "no limit" as the largest whole number of pages; nothing above this is a real
// limit.
constexpr int64_t kUnlimitedBytes = int64_t{1} << 60;

struct Mount {
  std::string root;   // of the hierarchy, as this process sees it
  std::string point;  // where it is mounted
};

bool has_item(std::string_view list, std::string_view item) {
  const std::vector<std::string_view> items = pieces_in(list, ',');
  return std::find(items.begin(), items.end(), item) != items.end();
}

// mountinfo writes a space as \040 and the like.
std::string unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    int code = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 4, code, 8).ptr ==
            text.data() + i + 4) {
      plain += static_cast<char>(code);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// Finds the mount of version 2, or of version 1's controller.
std::optional<Mount> find_mount(const std::string& mountinfo, bool is_v2,
                                const std::string& controller) {
  for (const std::string_view line : lines_in(mountinfo)) {
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const std::vector<std::string_view> left = words_in(line.substr(0, dash));
    const std::vector<std::string_view> right = words_in(line.substr(dash + 3));
    if (left.size() < 5 || right.size() < 3) continue;
    const bool is_match =
        is_v2 ? right[0] == "cgroup2" : right[0] == "cgroup" && has_item(right[2], controller);
    if (is_match) return Mount{unescape(left[3]), unescape(left[4])};
  }
  return std::nullopt;
}

// The process's group in the hierarchy: lines are "id:controllers:/path".
std::optional<std::string> find_group(const std::string& cgroups, bool is_v2,
                                      const std::string& controller) {
  for (const std::string_view line : lines_in(cgroups)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool is_match = is_v2 ? line.substr(0, first) == "0" && controllers.empty()
                                : has_item(controllers, controller);
    if (is_match) return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

std::optional<std::string> read_if_there(const std::string& path) {
  if (!io::file_exists(path)) return std::nullopt;
  try {
    return io::read_all(path, kMaxProcBytes);
  } catch (const Error&) {
    return std::nullopt;  // no permission, or the group vanished: then it states no limit to us
  }
}

std::optional<int64_t> read_limit(const std::string& path) {
  const std::optional<std::string> text = read_if_there(path);
  if (!text) return std::nullopt;
  int64_t bytes = 0;
  const auto result = std::from_chars(text->data(), text->data() + text->size(), bytes);
  if (result.ec != std::errc() || bytes >= kUnlimitedBytes) return std::nullopt;  // "max"
  return bytes;
}

/// One control group with the controller, as a folder of files.
struct Group {
  std::string folder;
  std::string name;
  bool is_v2 = false;
};

// The process's group and its ancestors, up to the root of the mount.
void add_groups(const std::string& root, bool is_v2, const std::string& controller,
                std::vector<Group>& groups) {
  const std::optional<std::string> cgroups = read_if_there(root + "/proc/self/cgroup");
  const std::optional<std::string> mountinfo = read_if_there(root + "/proc/self/mountinfo");
  if (!cgroups || !mountinfo) return;
  const std::optional<Mount> mount = find_mount(*mountinfo, is_v2, controller);
  std::optional<std::string> group = find_group(*cgroups, is_v2, controller);
  if (!mount || !group) return;
  // In a container the mount may begin at the group itself: strip that part. A group outside the
  // mount (or "/../..") cannot be seen; the mount's root is the nearest that can.
  if (mount->root != "/") {
    const bool is_inside = *group == mount->root || group->starts_with(mount->root + "/");
    group = is_inside ? group->substr(mount->root.size()) : std::string();
  }
  if (group->find("..") != std::string::npos) group->clear();
  while (!group->empty() && group->back() == '/') group->pop_back();
  while (true) {
    groups.push_back(
        {root + mount->point + *group, group->empty() ? std::string("/") : *group, is_v2});
    if (group->empty()) break;
    group->resize(group->rfind('/'));
  }
}

std::vector<Group> groups_of(const std::string& root, const std::string& controller) {
  std::vector<Group> groups;
  add_groups(root, true, controller, groups);
  add_groups(root, false, controller, groups);
  return groups;
}

std::vector<MemoryLimit> limits_of(const Group& group) {
  std::vector<MemoryLimit> limits;
  const auto add = [&](const char* file, const char* what, Excess excess) {
    if (const auto bytes = read_limit(group.folder + file))
      limits.push_back({*bytes, what + group.name, excess});
  };
  if (!group.is_v2) {
    add("/memory.limit_in_bytes", "cgroup v1 limit of ", Excess::killed);
    return limits;
  }
  add("/memory.max", "cgroup v2 limit of ", Excess::killed);
  add("/memory.high", "cgroup v2 memory.high of ", Excess::slowed);
  return limits;
}

// The number behind a word in a file of lines "word number ...".
std::optional<int64_t> number_if_any(const std::string& text, const std::string& word) {
  for (const std::string_view line : lines_in(text)) {
    const std::vector<std::string_view> words = words_in(line);
    int64_t number = 0;
    if (words.size() < 2 || words[0] != word) continue;
    const auto end = words[1].data() + words[1].size();
    if (std::from_chars(words[1].data(), end, number).ec != std::errc()) return std::nullopt;
    return number;
  }
  return std::nullopt;
}

// 0 where there is none.
int64_t number_after(const std::string& text, const std::string& word) {
  return number_if_any(text, word).value_or(0);
}

// What the group's processes hold that cannot be dropped: no pages of files. The kernel's own share
// is left out: it grows with this process too.
int64_t held_bytes(const Group& group) {
  const std::optional<std::string> text = read_if_there(group.folder + "/memory.stat");
  if (!text) return 0;
  return group.is_v2 ? number_after(*text, "anon") + number_after(*text, "shmem")
                     : number_after(*text, "total_rss") + number_after(*text, "total_shmem");
}

// What this process holds in the same sense.
int64_t own_bytes(const std::string& root) {
  const std::optional<std::string> text = read_if_there(root + "/proc/self/status");
  if (!text) return 0;
  return 1024 * (number_after(*text, "RssAnon:") + number_after(*text, "RssShmem:"));
}

// The soft limit of a line "Max address space   1073741824   unlimited   bytes".
std::optional<int64_t> process_limit(const std::string& limits, const std::string& name) {
  for (const std::string_view line : lines_in(limits)) {
    if (!line.starts_with(name + "  ")) continue;
    const std::vector<std::string_view> words = words_in(line.substr(name.size()));
    int64_t bytes = 0;
    if (words.empty()) return std::nullopt;
    const auto result = std::from_chars(words[0].data(), words[0].data() + words[0].size(), bytes);
    if (result.ec != std::errc()) return std::nullopt;  // "unlimited"
    return bytes;
  }
  return std::nullopt;
}

// What the process may map counts there, not what it touches.
void add_process_limits(const std::string& root, std::vector<MemoryLimit>& limits) {
  constexpr int64_t kUsualStack = int64_t{8} << 20;
  const std::string text = read_if_there(root + "/proc/self/limits").value_or(std::string());
  const std::string status = read_if_there(root + "/proc/self/status").value_or(std::string());
  const int64_t stack = process_limit(text, "Max stack size").value_or(kUsualStack);
  const int64_t stacks = stack * (available_threads() - 1);
  const auto untouched = [&](const char* mapped, const char* touched) {
    return 1024 *
           std::max<int64_t>(number_after(status, mapped) - number_after(status, touched), 0);
  };
  const auto add = [&](const char* name, int64_t beside, const char* source) {
    if (const auto bytes = process_limit(text, name))
      limits.push_back({std::max<int64_t>(*bytes - beside, 0), source, Excess::refused});
  };
  add("Max address space", untouched("VmSize:", "VmRSS:") + stacks, "address space (ulimit -v)");
  add("Max data size", untouched("VmData:", "RssAnon:") + stacks, "data segment (ulimit -d)");
}

// Time on all cores that the group's processes may take, as a share of the time that passes.
std::optional<double> cores_of(const Group& group) {
  const auto text = [&](const char* name) {
    return read_if_there(group.folder + name).value_or(std::string());
  };
  const std::string times =
      group.is_v2 ? text("/cpu.max") : text("/cpu.cfs_quota_us") + " " + text("/cpu.cfs_period_us");
  const std::vector<std::string_view> words = words_in(times);
  if (words.size() < 2) return std::nullopt;
  const std::optional<double> quota = number_in<double>(words[0]);
  const std::optional<double> period = number_in<double>(words[1]);
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;  // "max", -1
  return *quota / *period;
}

int64_t available_bytes(const std::string& root) {
  const std::string path = root + "/proc/meminfo";
  const std::string text = io::read_all(path, kMaxProcBytes);
  std::optional<int64_t> kib = number_if_any(text, "MemAvailable:");
  // Kernels before 3.14, and some sandboxes, leave the sum to who reads its parts.
  if (!kib && text.find("MemAvailable:") == std::string::npos) {
    kib = number_if_any(text, "MemFree:");
    if (kib)
      *kib += number_after(text, "Buffers:") +
              std::max<int64_t>(number_after(text, "Cached:") - number_after(text, "Shmem:"), 0);
  }
  if (kib && *kib >= 0 && *kib < kUnlimitedBytes / 1024) return *kib * 1024;
  throw Error(ErrorCode::io, path, "it does not say how much memory is free", "is /proc mounted?");
}

}  // namespace

std::optional<double> config::group_cores(const std::string& root) {
  std::optional<double> fewest;
  for (const Group& group : groups_of(root == "/" ? "" : root, "cpu")) {
    const std::optional<double> cores = cores_of(group);
    if (cores && (!fewest || *cores < *fewest)) fewest = cores;
  }
  return fewest;
}

std::vector<MemoryLimit> memory_limits(const std::string& root) {
  const std::string prefix = root == "/" ? "" : root;
  std::vector<MemoryLimit> all;
  for (const Group& group : groups_of(prefix, "memory")) {
    for (MemoryLimit& limit : limits_of(group)) all.push_back(std::move(limit));
  }
  add_process_limits(prefix, all);
  return all;
}

std::optional<MemoryLimit> group_memory(const std::string& root) {
  std::optional<MemoryLimit> tightest;
  for (const MemoryLimit& limit : memory_limits(root)) {
    if (limit.excess != Excess::killed) continue;
    if (!tightest || limit.bytes < tightest->bytes) tightest = limit;
  }
  return tightest;
}

MemoryLimit machine_memory(const std::string& root) {
  MemoryLimit tightest{available_bytes(root == "/" ? "" : root), "available memory"};
  for (const MemoryLimit& limit : memory_limits(root)) {
    if (limit.bytes < tightest.bytes) tightest = limit;
  }
  return tightest;
}

MemoryLimit memory_left(const std::string& root) {
  const std::string prefix = root == "/" ? "" : root;
  const int64_t own = own_bytes(prefix);
  MemoryLimit left{available_bytes(prefix) + own, "available memory"};
  const auto take = [&](MemoryLimit limit, int64_t others) {
    limit.bytes = std::max<int64_t>(limit.bytes - std::max<int64_t>(others, 0), 0);
    if (limit.bytes < left.bytes) left = std::move(limit);
  };
  for (const Group& group : groups_of(prefix, "memory")) {
    for (const MemoryLimit& limit : limits_of(group)) take(limit, held_bytes(group) - own);
  }
  std::vector<MemoryLimit> of_process;
  add_process_limits(prefix, of_process);
  for (const MemoryLimit& limit : of_process) take(limit, 0);
  return left;
}

}  // namespace snug
