// SPDX-License-Identifier: Apache-2.0
// What tests of the search over retention share.
#pragma once

#include <gtest/gtest.h>

#include "plan/graphs/retention.h"
#include "plan/problem/liveness.h"
#include "plan/problem/plan.h"
#include "plan/problem/validate.h"

namespace snug::plan::testing {

/// The state is what liveness says of its schedule.
inline void expect_state_is_exact(const Problem& problem, const Retention& state) {
  const std::vector<OpId> schedule = state.schedule();
  const auto violations = check_schedule(problem, schedule);
  ASSERT_TRUE(violations.empty()) << violations.front();
  const Liveness live = analyse(problem, schedule);
  EXPECT_EQ(live.load_bytes, state.peak());
  double once = 0;
  for (const Op& op : problem.ops) once += op.seconds;
  EXPECT_NEAR(live.seconds, once + state.extra_cost(), 1e-9);
}

}  // namespace snug::plan::testing
