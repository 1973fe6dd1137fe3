// SPDX-License-Identifier: Apache-2.0
#include "train/core_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace snug::train {
namespace {

TEST(CoreWatch, times_are_summed_over_the_threads) {
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / ("snug_watch_" + std::to_string(::getpid()));
  EXPECT_FALSE(thread_times(root.string()).has_value());
  for (const auto& [task, line] :
       {std::pair("7", "1000000000 500000000 12\n"), std::pair("8", "3000000000 250000000 3\n"),
        std::pair("9", "")}) {
    const auto folder = root / "proc/self/task" / task;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "schedstat") << line;
  }
  const std::optional<ThreadTimes> times = thread_times(root.string());
  std::filesystem::remove_all(root);
  ASSERT_TRUE(times.has_value());
  EXPECT_DOUBLE_EQ(times->running_seconds, 4.0);
  EXPECT_DOUBLE_EQ(times->waiting_seconds, 0.75);
}

TEST(CoreWatch, says_how_long_the_threads_waited_and_what_helps) {
  EXPECT_FALSE(shared_cores_warning({.running_seconds = 9, .waiting_seconds = 1}, true));
  EXPECT_FALSE(shared_cores_warning({}, true));
  const ThreadTimes busy{.running_seconds = 1, .waiting_seconds = 3};
  const Warning plain = shared_cores_warning(busy, false).value();
  EXPECT_EQ(plain.text,
            "other processes use the cores: the threads of this run waited for one for 75 % of "
            "their time (lower threads, or stop the other processes)");
  EXPECT_EQ(plain.code, "shared_cores");
  EXPECT_DOUBLE_EQ(plain.share.value(), 0.75);
  EXPECT_NE(shared_cores_warning(busy, true)->text.find("OMP_WAIT_POLICY=passive"),
            std::string::npos);
}

}  // namespace
}  // namespace snug::train
