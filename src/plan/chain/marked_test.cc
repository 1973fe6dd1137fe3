// SPDX-License-Identifier: Apache-2.0
// Marks are honoured exactly: at the loss nothing is in memory but what was marked and the last
// segment, and no op runs more than twice.
#include "plan/chain/marked.h"

#include <gtest/gtest.h>

#include "plan/frontier/frontier.h"
#include "plan/problem/test_problems.h"
#include "plan/problem/validate.h"

namespace snug::plan {
namespace {

constexpr int64_t kUnit = 64;

Problem with_names(Problem problem) {
  for (const StorageId id : problem.storages.ids()) problem.storages[id].name = "t" + to_string(id);
  return problem;
}

// Storages of the forward part that live when the backward part begins although nobody marked them
// and they lead to a mark.
int32_t strangers(const Problem& problem, const Plan& plan, const Marks& marks) {
  const ProblemIndex index(problem);
  size_t loss = 0;
  while (loss < plan.steps.size() && plan.steps[loss].op < index.backward_begin) ++loss;
  int32_t count = 0;
  for (const LiveRange& range : plan.live_ranges) {
    const auto begin = static_cast<int32_t>(loss);
    if (range.is_scratch() || range.first >= begin || range.last <= begin) continue;
    const OpId producer = index.producer[range.storage];
    if (producer == kNone || index.runs_once[producer]) continue;
    const bool is_of_part = !marks.parts[producer].empty();
    count += is_of_part && !marks.is_kept[range.storage] ? 1 : 0;
  }
  return count;
}

int32_t most_runs(const Problem& problem, const Plan& plan) {
  IdVector<OpId, int32_t> runs(problem.ops.size(), 0);
  for (const Step& step : plan.steps) ++runs[step.op];
  return *std::max_element(runs.begin(), runs.end());
}

TEST(Marked, A_long_chain_takes_the_units_that_its_marks_mean) {
  const Problem problem = with_names(testing::unit_chain(100));
  std::string marks = "marks:t10";
  for (int i = 19; i <= 91; i += 9) marks += ";t" + std::to_string(i);
  const Plan plan = plan_strategy(problem, marks);
  EXPECT_TRUE(check(problem, plan).empty());
  EXPECT_EQ(plan.load_bytes / kUnit, 21);  // 20 and the input
  EXPECT_EQ(plan.steps.size() - problem.ops.size(), 9U * 8 + 9);
}

TEST(Marked, Random_graphs_with_random_marks_keep_nothing_else) {
  int32_t repeats = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Problem problem =
        with_names(testing::random_training_graph(seed, {.has_updates = seed % 2 == 1}));
    const ProblemIndex index(problem);
    std::string marks;
    for (const StorageId id : index.storage_ids()) {
      const OpId producer = index.producer[id];
      const auto& readers = index.consumers[id];
      const bool may = producer != kNone && producer < index.backward_begin && !readers.empty() &&
                       readers.front() < index.backward_begin;
      if (may && (static_cast<uint64_t>(id.number()) * 7 + seed) % 4 == 0)
        marks += (marks.empty() ? "t" : ";t") + to_string(id);
    }
    if (marks.empty()) continue;
    const Plan plan = plan_strategy(problem, "marks:" + marks);
    const auto violations = check(problem, plan);
    ASSERT_TRUE(violations.empty()) << seed << ": " << violations.front();
    EXPECT_EQ(strangers(problem, plan, named_marks(index, marks)), 0) << seed;
    EXPECT_LE(most_runs(problem, plan), 2) << seed;
    repeats += static_cast<int32_t>(plan.steps.size() - problem.ops.size());
  }
  EXPECT_GT(repeats, 60);
}

// What the test above would see of a planner that keeps more than it was told.
TEST(Marked, A_planner_that_keeps_something_else_is_seen) {
  const Problem problem = with_names(testing::unit_chain(20));
  const ProblemIndex index(problem);
  const Marks marks = named_marks(index, "t5;t10");
  EXPECT_EQ(strangers(problem, plan_strategy(problem, "marks:t5;t10"), marks), 0);
  EXPECT_GT(strangers(problem, plan_strategy(problem, "keep-all"), marks), 0);
  EXPECT_GT(strangers(problem, plan_strategy(problem, "marks:t5;t8;t10"), marks), 0);
}

TEST(Marked, Recurrent_nets_and_nets_with_skips_have_no_single_cuts_and_are_planned) {
  for (const Problem& plain : {testing::recurrent_net({.steps = 20}), testing::u_net(3)}) {
    const Problem problem = with_names(plain);
    const ProblemIndex index(problem);
    std::string marks;
    for (OpId op(0); op + 4 < index.backward_begin; op = op + 5) {
      for (const StorageId id : index.op(op).outputs) {
        const auto& readers = index.consumers[id];
        if (!readers.empty() && readers.front() < index.backward_begin)
          marks += (marks.empty() ? "t" : ";t") + to_string(id);
      }
    }
    const Plan plan = plan_strategy(problem, "marks:" + marks);
    const auto violations = check(problem, plan);
    ASSERT_TRUE(violations.empty()) << violations.front();
    EXPECT_EQ(strangers(problem, plan, named_marks(index, marks)), 0);
    EXPECT_LE(most_runs(problem, plan), 2);
    EXPECT_GT(plan.steps.size(), problem.ops.size());
  }
}

TEST(Marked, A_weight_that_changes_before_its_second_reading_is_read_once) {
  Problem problem = with_names(testing::stale_weight_hazard());
  for (Op& op : problem.ops) op.parts = {0};
  const Plan plan = plan_strategy(problem, "marked");
  EXPECT_TRUE(check(problem, plan).empty());
}

}  // namespace
}  // namespace snug::plan
