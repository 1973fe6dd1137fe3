// SPDX-License-Identifier: Apache-2.0
#include "base/tasks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <string>
#include <vector>

#include "base/float_mode.h"
#include "base/stop.h"
#include "snug/error.h"

namespace snug {
namespace {

TEST(Tasks, Each_runs_once_on_any_number_of_threads) {
  for (const int threads : {0, 1, 2, 3, 7}) {
    for (const int64_t count : {0, 1, 2, 5, 40}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
      run_tasks(threads, count, [&](int64_t task) { ++runs[static_cast<size_t>(task)]; });
      for (const auto& each : runs) EXPECT_EQ(each, 1);
    }
  }
}

TEST(Tasks, The_error_of_the_first_is_thrown_behind_all) {
  for (const int threads : {1, 3}) {
    std::atomic<int> done = 0;
    std::string what;
    try {
      run_tasks(threads, 6, [&](int64_t task) {
        ++done;
        if (task == 4) throw Error(ErrorCode::bad_config, "four", "fails");
        if (task == 2) throw Error(ErrorCode::bad_config, "two", "fails");
      });
    } catch (const Error& error) {
      what = error.what();
    }
    EXPECT_NE(what.find("two"), std::string::npos) << what;
    EXPECT_EQ(done, 6);
  }
}

TEST(Tasks, All_stop_and_round_as_the_caller_does) {
  std::fenv_t before;
  ASSERT_EQ(std::fegetenv(&before), 0);
  std::atomic<int> stopped = 0;
  std::atomic<int> nearest = 0;
  std::fesetround(FE_UPWARD);
  {
    const DefaultFloatMode mode;
    const StopScope late({.cancel = nullptr, .deadline = StopClock::now()});
    run_tasks(3, 9, [&](int64_t) {
      stopped += is_stop_due() ? 1 : 0;
      nearest += std::fegetround() == FE_TONEAREST ? 1 : 0;
    });
  }
  std::fesetenv(&before);
  EXPECT_EQ(stopped, 9);
  EXPECT_EQ(nearest, 9);
  run_tasks(3, 9, [&](int64_t) { stopped += is_stop_due() ? 1 : 0; });
  EXPECT_EQ(stopped, 9);
}

}  // namespace
}  // namespace snug
