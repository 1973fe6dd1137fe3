// SPDX-License-Identifier: Apache-2.0
// How soon the planner ends when it is told to: the processor time between two looks.
#include <gtest/gtest.h>
#include <time.h>

#include <chrono>

#include "base/stop.h"
#include "plan/frontier/frontier.h"
#include "plan/improve/bound.h"
#include "plan/problem/test_problems.h"
#include "snug/error.h"

namespace snug::plan {
namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Stopped at many moments, each time within 0.2 s. Whatever else the machine does, the thread has
// had no more processor time than there was until the deadline.
template <class Work>
void expect_stops(const Work& work) {
  for (const int32_t milliseconds : {1, 30, 100, 300, 600}) {
    const auto begin = StopClock::now();
    const double begin_seconds = thread_seconds();
    const StopScope stop(
        {.cancel = nullptr, .deadline = begin + std::chrono::milliseconds(milliseconds)});
    try {
      work();
      ADD_FAILURE() << "it ended within " << milliseconds << " ms";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::cancelled);
    }
    EXPECT_LT(thread_seconds() - begin_seconds, 1e-3 * milliseconds + 0.2);
  }
}

TEST(Stop, The_search_for_schedules_ends_at_once) {
  const Problem net = testing::recurrent_net({.steps = 3000, .layers = 2});
  expect_stops([&] { (void)build_frontier(net, kQuickFrontier); });
  const Problem encoder = testing::encoder({.layers = 600});
  expect_stops([&] { (void)build_frontier(encoder, kQuickFrontier); });
}

TEST(Stop, Placements_and_bounds_end_at_once) {
  const Problem net = testing::recurrent_net({.steps = 3000, .layers = 2});
  expect_stops([&] {
    for (int32_t i = 0; i < 20; ++i) (void)plan_strategy(net, "keep-all");
  });
  const Problem encoder = testing::encoder({.layers = 600});
  const int64_t budget = 2 * working_set_bound(encoder).bytes;
  expect_stops([&] {
    for (int32_t i = 0; i < 200; ++i) (void)lower_bound_seconds(encoder, budget);
  });
}

}  // namespace
}  // namespace snug::plan
