// SPDX-License-Identifier: Apache-2.0
// The named strategies on chains of units, with the peaks that the original systems state for them
// (gradient-checkpointing's memory tests: 1 unit a tensor; our peaks count the input and both
// gradients of a step, one unit more than theirs).
#include "plan/chain/strategies.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plan/frontier/frontier.h"
#include "plan/problem/liveness.h"
#include "plan/problem/test_problems.h"
#include "plan/problem/validate.h"
#include "snug/error.h"

namespace snug::plan {
namespace {

constexpr int64_t kUnit = 64;

Plan plan_named(const Problem& problem, const std::string& strategy) {
  Plan plan = plan_strategy(problem, strategy);
  const auto violations = check(problem, plan);
  EXPECT_TRUE(violations.empty()) << strategy << ": " << violations.front();
  return plan;
}

int64_t units(const Plan& plan) { return plan.load_bytes / kUnit; }

double extra(const Problem& problem, const Plan& plan) {
  double once = 0;
  for (const Op& op : problem.ops) once += op.seconds;
  return plan.seconds - once;
}

TEST(Strategies, Root_of_a_long_chain_takes_what_the_originals_take_or_less) {
  const Problem problem = testing::unit_chain(100);
  for (const char* name : {"sqrt", "memory"}) {
    const Plan plan = plan_named(problem, name);
    EXPECT_LE(units(plan), 21) << name;
    EXPECT_LE(extra(problem, plan), 99) << name;
  }
  // The planner itself does better at the same price: 16 where the originals take 20.
  const Frontier frontier = build_frontier(problem);
  const std::optional<Plan> best = fastest_within(frontier, 17 * kUnit);
  ASSERT_TRUE(best);
  EXPECT_LE(extra(problem, *best), 99);
}

TEST(Strategies, The_last_segment_is_not_recomputed) {
  const Problem problem = testing::unit_chain(20);
  for (const char* name : {"recompute-all", "sqrt", "every:4", "revolve:3", "chen"}) {
    const Plan plan = plan_named(problem, name);
    IdVector<OpId, int32_t> runs(problem.ops.size(), 0);
    for (const Step& step : plan.steps) ++runs[step.op];
    EXPECT_EQ(runs[OpId(19)], 1) << name;  // the last forward op
    EXPECT_GT(extra(problem, plan), 0) << name;
  }
  EXPECT_EQ(extra(problem, plan_named(problem, "every:100")), 0);
  EXPECT_EQ(extra(problem, plan_named(problem, "chen:1000000")), 0);
}

TEST(Strategies, Chen_tries_quotas_and_is_at_least_as_small_as_any_of_them) {
  for (const int32_t n : {20, 50, 100}) {
    const Problem problem = testing::unit_chain(n);
    const int64_t chosen = units(plan_named(problem, "chen"));
    for (const int64_t quota : {1, 2, 3, 5, 8, 13, 21}) {
      const std::string name = "chen:" + std::to_string(quota * kUnit);
      EXPECT_LE(chosen, units(plan_named(problem, name))) << n << " " << name;
    }
    EXPECT_LE(chosen, static_cast<int64_t>(2 * std::sqrt(n)) + 3) << n;
  }
}

TEST(Strategies, Revolve_needs_fewer_bytes_the_fewer_checkpoints_it_may_hold) {
  const Problem problem = testing::unit_chain(60);
  int64_t before = 0;
  double seconds_before = 1e300;
  for (const int32_t checkpoints : {1, 2, 3, 5, 8, 13}) {
    const Plan plan = plan_named(problem, "revolve:" + std::to_string(checkpoints));
    EXPECT_GE(units(plan), before) << checkpoints;
    EXPECT_LE(plan.seconds, seconds_before) << checkpoints;
    EXPECT_LE(units(plan), checkpoints + 6) << checkpoints;
    before = units(plan);
    seconds_before = plan.seconds;
  }
}

// t(l, c) = r l - C(c + r, r - 1) forward steps for l steps and c checkpoints beside the input.
TEST(Strategies, Revolve_on_a_homogeneous_chain_runs_as_often_as_the_closed_form) {
  const auto binomial = [](int64_t n, int64_t k) {
    double value = 1;
    for (int64_t i = 1; i <= k; ++i)
      value = value * static_cast<double>(n - k + i) / static_cast<double>(i);
    return value;
  };
  const int32_t n = 31;  // the input and 30 steps
  const Problem problem = testing::input_chain(n);
  for (const int64_t checkpoints : {1, 2, 3, 4, 6}) {
    const Plan plan = plan_named(problem, "revolve:" + std::to_string(checkpoints));
    const int64_t length = n - 1;
    const int64_t c = checkpoints + 1;  // the input is held too
    int64_t r = 0;
    while (binomial(c + r, c) < static_cast<double>(length)) ++r;
    const double advances = static_cast<double>(r * length) - binomial(c + r, r - 1);
    // The closed form counts advances; here the first forward run of every step is counted once.
    EXPECT_LE(extra(problem, plan), advances) << checkpoints;
  }
}

TEST(Strategies, Marks_keep_what_they_name_in_any_order) {
  const Problem problem = testing::unit_chain(20);
  std::vector<std::string> names;
  for (const Storage& storage : problem.storages) names.push_back(storage.name);
  Problem named = problem;
  for (const StorageId id : named.storages.ids()) named.storages[id].name = "t" + to_string(id);
  const Plan plan = plan_named(named, "marks:t5;t10;t15");
  EXPECT_EQ(plan.steps, plan_named(named, "marks:t15;t5;t10").steps);
  EXPECT_GT(extra(named, plan), 0);
  EXPECT_LE(extra(named, plan), 19);
  EXPECT_LT(units(plan), units(plan_named(named, "keep-all")));
  // Marks on everything keep everything.
  EXPECT_EQ(extra(named, plan_named(named, "marks:*")), 0);
  // Only the output, and nothing at all.
  for (const char* marks : {"marks:t19", "marks:nothing"}) {
    try {
      (void)plan_strategy(named, marks);
      FAIL() << marks;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_config);
      EXPECT_NE(std::string(error.what()).find("keeps nothing"), std::string::npos);
    }
  }
}

TEST(Strategies, Speed_runs_nothing_expensive_again) {
  Problem problem = testing::encoder({.layers = 3});
  int32_t expensive = 0;
  for (Op& op : problem.ops) {
    op.is_expensive = op.name == "attention";
    expensive += op.is_expensive ? 1 : 0;
  }
  EXPECT_EQ(expensive, 3);
  const Plan plan = plan_named(problem, "speed");
  IdVector<OpId, int32_t> runs(problem.ops.size(), 0);
  for (const Step& step : plan.steps) ++runs[step.op];
  int32_t repeats = 0;
  for (const OpId id : runs.ids()) {
    if (problem.ops[id].is_expensive) {
      EXPECT_EQ(runs[id], 1) << problem.ops[id].scope;
    }
    repeats += runs[id] - 1;
  }
  EXPECT_GT(repeats, 0);
  EXPECT_LT(plan.load_bytes, plan_named(problem, "keep-all").load_bytes);
}

TEST(Strategies, Other_names_are_refused) {
  for (const char* name : {"", "magic", "every", "every:", "every:0", "every:-2", "every:2x",
                           "chen:", "revolve", "revolve:0", "marks", "marks:", "sqrt:2"}) {
    EXPECT_THROW(check_strategy_name(name), Error) << name;
  }
}

}  // namespace
}  // namespace snug::plan
