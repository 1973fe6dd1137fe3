// SPDX-License-Identifier: Apache-2.0
// Chains of equal units, where the optimum is known: by exhaustive search for short ones, and how
// far long ones must get with one extra forward run.
#include <gtest/gtest.h>

#include <bit>
#include <deque>
#include <optional>
#include <vector>

#include "plan/frontier/frontier.h"
#include "plan/problem/test_problems.h"
#include "plan/problem/validate.h"

namespace snug::plan {
namespace {

constexpr int64_t kUnit = 64;

// Fewest forward runs that take testing::unit_chain(n) through its backward part within `units`, by
// breadth-first search over (units that are live, next backward op).
std::optional<int32_t> fewest_forward_runs(int32_t n, int32_t units) {
  const auto masks = size_t{1} << n;
  // Stage n: the loss comes next; stage k < n: the backward of op k.
  std::vector<int32_t> best(masks * static_cast<size_t>(n + 1), -1);
  std::deque<std::pair<size_t, int32_t>> queue;
  const auto reach = [&](size_t live, int32_t stage, int32_t runs, bool is_free) {
    int32_t& known = best[static_cast<size_t>(stage) * masks + live];
    if (known >= 0 && known <= runs) return;
    known = runs;
    if (is_free) {
      queue.emplace_front(live, stage);
    } else {
      queue.emplace_back(live, stage);
    }
  };
  reach(1, n, 0, true);
  while (!queue.empty()) {
    const auto [live, stage] = queue.front();
    queue.pop_front();
    const int32_t runs = best[static_cast<size_t>(stage) * masks + live];
    if (stage == 0) return runs;
    const int32_t gradient = stage == n ? 0 : 1;
    for (int32_t i = 0; i < n; ++i) {
      const size_t bit = size_t{1} << i;
      if ((live & bit) != 0) reach(live & ~bit, stage, runs, true);
      const bool can_run = i > 0 && (live & bit) == 0 && (live & bit >> 1) != 0;
      if (can_run && std::popcount(live) + 1 + gradient <= units)
        reach(live | bit, stage, runs + 1, false);
    }
    const size_t read = size_t{1} << (stage == n ? n - 1 : stage);
    if ((live & read) != 0 && std::popcount(live) + gradient + 1 <= units)
      reach(live, stage == 1 || n == 1 ? 0 : stage - 1, runs, true);
  }
  return std::nullopt;
}

TEST(UnitChain, Short_chains_are_optimal_at_every_budget) {
  for (int32_t n = 2; n <= 14; ++n) {
    const Problem problem = testing::unit_chain(n);
    const Frontier frontier = build_frontier(problem);
    for (int32_t units = 2; units <= n + 1; ++units) {
      const auto runs = fewest_forward_runs(n, units);
      const std::optional<Plan> plan = fastest_within(frontier, units * kUnit);
      ASSERT_EQ(plan.has_value(), runs.has_value()) << n << " units in " << units;
      if (!plan) continue;
      EXPECT_EQ(plan->seconds - frontier.keep_all_seconds(), *runs - (n - 1))
          << n << " units in " << units;
    }
  }
}

TEST(UnitChain, Long_chains_need_few_units_with_one_extra_forward) {
  // √n segments need 10, 16, 21, 30, 65.
  const std::pair<int32_t, int64_t> marks[] = {{20, 9}, {50, 13}, {100, 15}, {200, 21}, {1000, 46}};
  for (const auto& [n, units] : marks) {
    const Problem problem = testing::unit_chain(n);
    const Frontier frontier = build_frontier(problem);
    const std::optional<Plan> plan = fastest_within(frontier, units * kUnit);
    ASSERT_TRUE(plan) << n;
    EXPECT_LE(plan->seconds, frontier.keep_all_seconds() + n - 1) << n;
    EXPECT_LE(frontier.smallest().arena_bytes, 6 * kUnit) << n;
    ASSERT_TRUE(check(problem, *plan).empty());
    ASSERT_TRUE(check(problem, frontier.smallest()).empty());
  }
}

}  // namespace
}  // namespace snug::plan
