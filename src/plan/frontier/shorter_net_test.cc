// SPDX-License-Identifier: Apache-2.0
// Schedules of a net of fewer steps that follow those of a longer one.
#include "plan/frontier/shorter_net.h"

#include <gtest/gtest.h>

#include "plan/frontier/frontier.h"
#include "plan/placement/assemble.h"
#include "plan/problem/order.h"
#include "plan/problem/test_problems.h"
#include "plan/problem/validate.h"

namespace snug::plan {
namespace {

// What of a shorter net differs from the steps of a longer one: the last step and the head.
TEST(Part, fewer_steps_follow_every_schedule_of_more_and_need_no_more) {
  for (const int32_t layers : {1, 2}) {
    const Problem whole = testing::recurrent_net({.steps = 30, .layers = layers});
    const Frontier frontier = build_frontier(whole, kQuickFrontier);
    for (const int32_t steps : {1, 2, 7, 29}) {
      const Problem part = testing::recurrent_net({.steps = steps, .layers = layers});
      for (const ScheduledPoint& point : frontier.points()) {
        const auto schedule = schedule_of_part(part, whole, point.schedule);
        ASSERT_TRUE(schedule) << steps;
        const Plan plan = assemble(part, *schedule, point.strategy, kQuickFrontier.placement);
        EXPECT_TRUE(check(part, plan).empty()) << steps;
        EXPECT_LE(plan.load_bytes, point.load_bytes) << steps << " of " << layers << " layers";
      }
    }
  }
}

TEST(Part, the_same_problem_keeps_the_schedule) {
  const Problem problem = testing::encoder({.layers = 3});
  const Frontier frontier = build_frontier(problem, kQuickFrontier);
  for (const ScheduledPoint& point : frontier.points())
    EXPECT_EQ(schedule_of_part(problem, problem, point.schedule), point.schedule);
}

TEST(Part, another_net_is_no_part) {
  const Problem whole = testing::recurrent_net({.steps = 5});
  EXPECT_EQ(
      schedule_of_part(testing::recurrent_net({.steps = 6}), whole, prompt_update_order(whole)),
      std::nullopt);
}

}  // namespace
}  // namespace snug::plan
