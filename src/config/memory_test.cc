// SPDX-License-Identifier: Apache-2.0
#include "snug/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/units.h"
#include "config/cores.h"
#include "io/file.h"
#include "io/test_folder.h"

namespace snug::config {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Another machine below a folder.
class FakeMachine {
 public:
  explicit FakeMachine(int64_t available_mib) {
    put("/proc/meminfo", "MemTotal:       99999999 kB\nMemFree:  1 kB\nMemAvailable:   " +
                             std::to_string(available_mib * 1024) + " kB\n");
  }
  void put(const std::string& path, const std::string& text) {
    io::make_folders(io::parent_folder(root() + path));
    io::write_file(root() + path, text);
  }
  [[nodiscard]] std::string root() const { return folder_.path(); }
  [[nodiscard]] MemoryLimit limit() const { return machine_memory(root()); }

 private:
  io::TestFolder folder_;
};

void mount_v2(FakeMachine& machine, const std::string& group, const std::string& mount_root = "/") {
  machine.put("/proc/self/cgroup", "0::" + group + "\n");
  machine.put("/proc/self/mountinfo",
              "22 1 8:1 / / rw - ext4 /dev/sda rw\n30 22 0:26 " + mount_root +
                  " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
}

void mount_v1(FakeMachine& machine, const std::string& group, const std::string& mount_root = "/") {
  machine.put("/proc/self/cgroup", "9:name=systemd:/\n4:memory,hugetlb:" + group + "\n0::/\n");
  machine.put("/proc/self/mountinfo",
              "31 22 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
              "32 22 0:28 " +
                  mount_root +
                  " /sys/fs/cgroup/mem\\040ory rw - cgroup cgroup rw,memory,hugetlb\n"
                  "33 22 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
}

TEST(Memory, what_is_available_is_summed_where_the_kernel_does_not_say) {
  FakeMachine machine(1);
  machine.put("/proc/meminfo",
              "MemTotal: 99999999 kB\nMemFree: 1024 kB\nBuffers: 2048 kB\nCached: 8192 kB\n"
              "Shmem: 4096 kB\n");
  EXPECT_EQ(machine.limit().bytes, 7 * kMiB);
  machine.put("/proc/meminfo", "MemFree: 1024 kB\nMemAvailable: much kB\n");
  EXPECT_ERROR((void)machine.limit(), "does not say how much memory is free");
  machine.put("/proc/meminfo", "MemTotal: 99999999 kB\n");
  EXPECT_ERROR((void)machine.limit(), "does not say how much memory is free");
}

TEST(Memory, forms_are_read_and_written) {
  using Kind = MemorySpec::Kind;
  const std::pair<const char*, MemorySpec> cases[] = {
      {"auto", {}},
      {"900MiB", {.kind = Kind::bytes, .bytes = 900 * kMiB}},
      {"1073741824", {.kind = Kind::bytes, .bytes = 1024 * kMiB}},
      {"1.5GB", {.kind = Kind::bytes, .bytes = 1'500'000'000}},
      {"60%", {.kind = Kind::percent, .percent = 60}},
      {"12.5%", {.kind = Kind::percent, .percent = 12.5}},
      {"100%", {.kind = Kind::percent, .percent = 100}},
      {"-512MiB", {.kind = Kind::all_but, .bytes = 512 * kMiB}},
      {"-4096", {.kind = Kind::all_but, .bytes = 4096}}};
  for (const auto& [text, spec] : cases) {
    EXPECT_EQ(parse_memory(text), spec) << text;
    EXPECT_EQ(parse_memory(to_string(spec)), spec) << text;
  }
  for (const char* bad : {"", "%", "0%", "101%", "-5%", "nan%", "inf%", "5 %", "MiB", "-", "--5MiB",
                          "0", "12 parsecs", "1e30GiB", "nan", "Auto", "5MiB "}) {
    EXPECT_ERROR((void)parse_memory(bad, "memory"),
                 "bad_config: [memory] '" + std::string(bad) + "' is not an amount of memory");
    EXPECT_ERROR((void)parse_memory(bad, "memory"), "hint: write for example 900MiB");
  }
}

TEST(Memory, without_a_limit_auto_is_the_available_memory) {
  FakeMachine machine(1000);
  EXPECT_EQ(machine.limit().bytes, 1000 * kMiB);
  EXPECT_EQ(machine.limit().source, "available memory");
  mount_v2(machine, "/a");
  machine.put("/sys/fs/cgroup/a/memory.max", "max\n");
  EXPECT_EQ(machine.limit().bytes, 1000 * kMiB);
  machine.put("/sys/fs/cgroup/a/memory.max",
              std::to_string(2000 * kMiB) + "\n");  // more than there is
  EXPECT_EQ(machine.limit().source, "available memory");
}

TEST(Memory, version_2_takes_the_tightest_of_the_group_and_its_ancestors) {
  FakeMachine machine(1000);
  mount_v2(machine, "/a/b/c");
  machine.put("/sys/fs/cgroup/a/b/c/memory.max", std::to_string(500 * kMiB) + "\n");
  EXPECT_EQ(machine.limit().bytes, 500 * kMiB);
  EXPECT_EQ(machine.limit().source, "cgroup v2 limit of /a/b/c");
  machine.put("/sys/fs/cgroup/a/memory.max", std::to_string(300 * kMiB) + "\n");
  EXPECT_EQ(machine.limit().bytes, 300 * kMiB);
  EXPECT_EQ(machine.limit().source, "cgroup v2 limit of /a");
  machine.put("/sys/fs/cgroup/other/memory.max", "4096\n");
  EXPECT_EQ(machine.limit().bytes, 300 * kMiB);
}

TEST(Memory, version_1_reads_the_memory_controller) {
  FakeMachine machine(1000);
  mount_v1(machine, "/jobs/7");
  machine.put("/sys/fs/cgroup/mem ory/memory.limit_in_bytes", "9223372036854771712\n");
  machine.put("/sys/fs/cgroup/mem ory/jobs/7/memory.limit_in_bytes",
              std::to_string(400 * kMiB) + "\n");
  EXPECT_EQ(machine.limit().bytes, 400 * kMiB);
  EXPECT_EQ(machine.limit().source, "cgroup v1 limit of /jobs/7");
}

TEST(Memory, in_a_container_the_mount_begins_at_the_group) {
  FakeMachine v1(1000);
  mount_v1(v1, "/docker/abc", "/docker/abc");
  v1.put("/sys/fs/cgroup/mem ory/memory.limit_in_bytes", std::to_string(200 * kMiB) + "\n");
  EXPECT_EQ(v1.limit().bytes, 200 * kMiB);
  FakeMachine v2(1000);
  mount_v2(v2, "/../../x");  // a group outside this namespace
  v2.put("/sys/fs/cgroup/memory.max", std::to_string(100 * kMiB) + "\n");
  EXPECT_EQ(v2.limit().bytes, 100 * kMiB);
}

TEST(Memory, what_slows_a_group_down_counts_for_auto_and_kills_nothing) {
  FakeMachine machine(8000);
  mount_v2(machine, "/a/b");
  machine.put("/sys/fs/cgroup/a/memory.max", std::to_string(3000 * kMiB) + "\n");
  machine.put("/sys/fs/cgroup/a/b/memory.max", "max\n");
  machine.put("/sys/fs/cgroup/a/b/memory.high", std::to_string(300 * kMiB) + "\n");
  machine.put("/sys/fs/cgroup/a/b/memory.stat", "anon " + std::to_string(100 * kMiB) + "\n");
  EXPECT_EQ(machine.limit().bytes, 300 * kMiB);
  EXPECT_EQ(machine.limit().source, "cgroup v2 memory.high of /a/b");
  EXPECT_EQ(machine.limit().excess, Excess::slowed);
  EXPECT_EQ(group_memory(machine.root())->bytes, 3000 * kMiB);
  EXPECT_EQ(memory_left(machine.root()).bytes, 200 * kMiB);
}

TEST(Memory, limits_of_the_process_count_without_what_it_never_touches) {
  FakeMachine machine(8000);
  const auto limit_to = [&](const std::string& space, const std::string& data) {
    machine.put(
        "/proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max data size             " +
            data +
            "            unlimited            bytes     \n"
            "Max stack size            0                    unlimited            bytes     \n"
            "Max address space         " +
            space + "            unlimited            bytes     \n");
  };
  machine.put(
      "/proc/self/status",
      "VmSize:\t  512000 kB\nVmRSS:\t  102400 kB\nRssAnon:\t 51200 kB\nVmData:\t  61440 kB\n");
  limit_to("unlimited", "unlimited");
  EXPECT_EQ(machine.limit().source, "available memory");
  limit_to(std::to_string(1000 * kMiB), "unlimited");
  EXPECT_EQ(machine.limit().bytes, 600 * kMiB);  // without 400 MiB that are mapped alone
  EXPECT_EQ(machine.limit().source, "address space (ulimit -v)");
  EXPECT_EQ(machine.limit().excess, Excess::refused);
  limit_to(std::to_string(1000 * kMiB), std::to_string(300 * kMiB));
  EXPECT_EQ(machine.limit().bytes, 290 * kMiB);
  EXPECT_EQ(machine.limit().source, "data segment (ulimit -d)");
  EXPECT_FALSE(group_memory(machine.root()).has_value());
  EXPECT_EQ(memory_left(machine.root()).bytes, 290 * kMiB);
  limit_to(std::to_string(kMiB), "unlimited");
  EXPECT_EQ(machine.limit().bytes, 0);
}

TEST(Memory, the_groups_limit_is_known_without_what_is_available) {
  FakeMachine machine(1000);
  EXPECT_FALSE(group_memory(machine.root()).has_value());
  mount_v2(machine, "/a/b");
  machine.put("/sys/fs/cgroup/a/memory.max", std::to_string(3000 * kMiB) + "\n");
  ASSERT_TRUE(group_memory(machine.root()).has_value());
  EXPECT_EQ(group_memory(machine.root())->bytes, 3000 * kMiB);
  EXPECT_EQ(group_memory(machine.root())->source, "cgroup v2 limit of /a");
}

TEST(Memory, what_others_leave_is_the_least_of_the_groups_and_the_machine) {
  FakeMachine machine(1000);
  machine.put("/proc/self/status",
              "Name: x\nRssAnon:  30720 kB\nRssFile: 9999 kB\nRssShmem: 0 kB\n");
  EXPECT_EQ(memory_left(machine.root()).bytes, 1030 * kMiB);  // what it holds itself comes back
  mount_v2(machine, "/a/b");
  machine.put("/sys/fs/cgroup/a/memory.max", std::to_string(500 * kMiB) + "\n");
  machine.put("/sys/fs/cgroup/a/memory.stat", "anon " + std::to_string(130 * kMiB) + "\nfile " +
                                                  std::to_string(300 * kMiB) + "\nshmem " +
                                                  std::to_string(50 * kMiB) + "\n");
  EXPECT_EQ(memory_left(machine.root()).bytes, 350 * kMiB);
  EXPECT_EQ(memory_left(machine.root()).source, "cgroup v2 limit of /a");
  FakeMachine v1(1000);
  mount_v1(v1, "/jobs/7");
  v1.put("/sys/fs/cgroup/mem ory/jobs/7/memory.limit_in_bytes", std::to_string(400 * kMiB) + "\n");
  v1.put("/sys/fs/cgroup/mem ory/jobs/7/memory.stat",
         "rss 1\ntotal_rss " + std::to_string(100 * kMiB) + "\ntotal_cache 999999999999\n");
  EXPECT_EQ(memory_left(v1.root()).bytes, 300 * kMiB);
}

TEST(Cores, the_tightest_quota_of_the_group_and_its_ancestors_counts) {
  FakeMachine machine(1000);
  EXPECT_FALSE(group_cores(machine.root()).has_value());
  mount_v2(machine, "/a/b");
  machine.put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_FALSE(group_cores(machine.root()).has_value());
  machine.put("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(group_cores(machine.root()).value_or(0), 1.5);
  machine.put("/sys/fs/cgroup/a/b/cpu.max", "20000 50000\n");
  EXPECT_DOUBLE_EQ(group_cores(machine.root()).value_or(0), 0.4);
  FakeMachine v1(1000);
  mount_v1(v1, "/jobs/7");
  v1.put("/proc/self/cgroup", "3:cpu,cpuacct:/jobs/7\n0::/\n");
  v1.put("/sys/fs/cgroup/cpu/jobs/7/cpu.cfs_quota_us", "-1\n");
  v1.put("/sys/fs/cgroup/cpu/jobs/7/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(group_cores(v1.root()).has_value());
  v1.put("/sys/fs/cgroup/cpu/jobs/7/cpu.cfs_quota_us", "250000\n");
  EXPECT_DOUBLE_EQ(group_cores(v1.root()).value_or(0), 2.5);
}

TEST(Memory, budgets_resolve_to_whole_pages) {
  FakeMachine machine(1000);
  const auto resolve = [&](const char* text) {
    return resolve_memory(parse_memory(text), machine.root());
  };
  EXPECT_EQ(resolve("auto"), 1000 * kMiB);
  EXPECT_EQ(resolve("60%"), 600 * kMiB);
  EXPECT_EQ(resolve("33.3%"), static_cast<int64_t>(1000 * kMiB * 0.333) / kPageBytes * kPageBytes);
  EXPECT_EQ(resolve("-100MiB"), 900 * kMiB);
  EXPECT_EQ(resolve("-1"), 1000 * kMiB - kPageBytes);
  EXPECT_EQ(resolve("5000"), 4096);
  EXPECT_EQ(resolve("1000"), 1000);                // which no plan is within
  EXPECT_EQ(resolve("64GiB"), int64_t{64} << 30);  // planning for another machine
  EXPECT_ERROR((void)resolve("-2000MiB"),
               "bad_config: [memory] '-2097152000' leaves nothing of the 1000.0 MiB that the "
               "available memory allows");
  EXPECT_ERROR((void)resolve("0.0001%"), "leaves nothing");
  EXPECT_ERROR((void)machine_memory(machine.root() + "/none"), "io: ");
}

TEST(Memory, the_resident_set_and_its_peak_are_measured) {
  EXPECT_GT(current_rss_bytes(), 0);
  constexpr int64_t kBlock = 64 * kMiB;
  const int64_t before = current_rss_bytes();
  {
    // Straight from the kernel, so that it goes back there: an allocator may keep what it is given.
    void* block = ::mmap(nullptr, static_cast<size_t>(kBlock), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(block, MAP_FAILED);
    volatile char* touched = static_cast<char*>(block);
    for (int64_t i = 0; i < kBlock; i += kPageBytes) touched[i] = 'y';
    EXPECT_GE(current_rss_bytes(), before + kBlock * 9 / 10);
    ::munmap(block, static_cast<size_t>(kBlock));
  }
  const int64_t peak = peak_rss_bytes();
  EXPECT_GE(peak, before + kBlock * 9 / 10);
  if (reset_peak_rss()) {
    EXPECT_LT(peak_rss_bytes(), peak);
  }
  // This machine answers too, whatever it is.
  EXPECT_GE(machine_memory().bytes, kPageBytes);
}

}  // namespace
}  // namespace snug::config
