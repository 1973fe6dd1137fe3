// SPDX-License-Identifier: Apache-2.0
// More budget is never more cost, whatever was asked before; the curve is of the same searches.
#include "plan/graphs/budget_tree.h"

#include <gtest/gtest.h>

#include "plan/frontier/remat.h"
#include "plan/improve/bound.h"
#include "plan/problem/brute_force.h"
#include "plan/problem/liveness.h"
#include "plan/problem/test_problems.h"
#include "plan/problem/validate.h"

namespace snug::plan {
namespace {

using testing::random_training_graph;

int64_t keep_all_bytes(const Problem& problem) {
  return analyse(problem, given_order(problem)).load_bytes;
}

void expect_more_is_never_dearer(const Problem& problem, const RematLimits& limits, int32_t count) {
  const int64_t top = keep_all_bytes(problem);
  const int64_t bottom = working_set_bound(problem).bytes;
  RematResult before;
  for (int32_t i = 0; i <= count; ++i) {
    const int64_t budget = bottom + (top - bottom) * i / count;
    const RematResult found = solve_remat(problem, budget, limits);
    ASSERT_TRUE(check_schedule(problem, found.schedule).empty());
    ASSERT_EQ(found.fits, found.peak_bytes <= budget);
    if (before.fits) {
      EXPECT_TRUE(found.fits) << budget;
      EXPECT_LE(found.seconds, before.seconds) << budget;
    }
    before = found;
  }
  EXPECT_TRUE(before.fits);
}

TEST(BudgetTree, More_budget_is_never_more_cost) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Problem problem = random_training_graph(seed, {.forward_ops = 14});
    for (const bool may_reorder : {false, true}) {
      RematLimits limits;
      limits.may_reorder = may_reorder;
      limits.factor = 0.02;  // brief searches err more
      expect_more_is_never_dearer(problem, limits, 40);
      limits.effort = Effort::fast;
      expect_more_is_never_dearer(problem, limits, 40);
    }
  }
}

// Within what is left of the halvings, too.
TEST(BudgetTree, Neighbouring_bytes_are_in_order) {
  const Problem problem = random_training_graph(7, {.forward_ops = 25});
  RematLimits limits;
  limits.factor = 0.02;
  RematSolver solver(problem, limits);
  const int64_t middle = keep_all_bytes(problem) * 7 / 10;
  double before = solver.at(middle - 1).seconds;
  for (int64_t bytes = middle; bytes < middle + 200; ++bytes) {
    const double now = solver.at(bytes).seconds;
    EXPECT_LE(now, before) << bytes;
    before = now;
  }
}

TEST(BudgetTree, An_answer_does_not_depend_on_the_budgets_before) {
  const Problem problem = random_training_graph(3, {.forward_ops = 30});
  const int64_t top = keep_all_bytes(problem);
  RematLimits limits;
  limits.may_reorder = true;
  limits.factor = 0.1;
  RematSolver solver(problem, limits);
  for (const int64_t tenths : {9, 5, 7, 3, 8, 6, 4}) {
    const int64_t budget = top * tenths / 10;
    EXPECT_EQ(solver.at(budget).schedule, solve_remat(problem, budget, limits).schedule) << tenths;
  }
}

TEST(Curve, Rises_in_bytes_and_falls_in_cost) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Problem problem = random_training_graph(seed, {.forward_ops = 25});
    RematLimits limits;
    limits.factor = 0.1;
    RematSolver solver(problem, limits);
    const std::vector<RematResult> curve = solver.curve();
    ASSERT_GT(curve.size(), 4U);
    for (size_t i = 0; i < curve.size(); ++i) {
      ASSERT_TRUE(check_schedule(problem, curve[i].schedule).empty());
      EXPECT_EQ(analyse(problem, curve[i].schedule).load_bytes, curve[i].peak_bytes);
      EXPECT_TRUE(curve[i].fits);
      if (i > 0) {
        EXPECT_GT(curve[i].peak_bytes, curve[i - 1].peak_bytes);
        EXPECT_LT(curve[i].seconds, curve[i - 1].seconds);
      }
    }
    EXPECT_EQ(curve.back().schedule, given_order(problem));
  }
}

TEST(Curve, Of_a_tiny_problem_has_every_point_of_the_optimum) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Problem problem = random_training_graph(seed, {.forward_ops = 3});
    if (problem.ops.size() > 8) continue;
    RematLimits limits;
    limits.may_reorder = true;
    RematSolver solver(problem, limits);
    const std::vector<RematResult> curve = solver.curve();
    ASSERT_FALSE(curve.empty());
    EXPECT_EQ(curve.front().peak_bytes, testing::smallest_load(problem));
    for (size_t i = 0; i < curve.size(); ++i) {
      EXPECT_NEAR(curve[i].seconds, *testing::fewest_seconds(problem, curve[i].peak_bytes), 1e-9);
      if (i == 0) continue;
      const double below = *testing::fewest_seconds(problem, curve[i].peak_bytes - 1);
      EXPECT_NEAR(curve[i - 1].seconds, below, 1e-9);
    }
  }
}

}  // namespace
}  // namespace snug::plan
