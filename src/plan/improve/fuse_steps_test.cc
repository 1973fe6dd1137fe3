// SPDX-License-Identifier: Apache-2.0
#include "plan/improve/fuse_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "plan/frontier/frontier.h"
#include "plan/placement/assemble.h"
#include "plan/problem/test_problems.h"
#include "plan/problem/validate.h"
#include "snug/error.h"

namespace snug::plan {
namespace {

using Names = std::vector<std::string>;

// Every op that adds to a resident sum may be fused with those that add to the same one.
Problem with_fusions(Problem problem, int32_t most, int64_t scratch_bytes) {
  for (Op& op : problem.ops) {
    if (op.phase != Phase::backward || op.outputs.size() != 1) continue;
    if (!problem.storages[op.outputs[0]].resident) continue;
    op.fusion = {.kind = static_cast<uint64_t>(op.outputs[0].number()) + 1,
                 .most = most,
                 .seconds = op.seconds / 4,
                 .scratch_bytes = scratch_bytes};
  }
  return problem;
}

Problem without_fusions(Problem problem) {
  for (Op& op : problem.ops) op.fusion = {};
  return problem;
}

// make x0, add x0 to s, make x1, add x1 to s, ...: each x dies in its sum.
Problem sums(int32_t count, int32_t most) {
  Problem problem;
  problem.storages.push_back({"s", 4096, true});
  for (int32_t i = 0; i < count; ++i) {
    const StorageId x = problem.storages.add({"x" + std::to_string(i), 64, false});
    problem.ops.push_back({.name = "make" + std::to_string(i),
                           .scope = "",
                           .phase = Phase::backward,
                           .seconds = 1,
                           .inputs = {},
                           .outputs = {x},
                           .may_recompute = false});
    problem.ops.push_back({.name = "add" + std::to_string(i),
                           .scope = "",
                           .phase = Phase::backward,
                           .seconds = 1,
                           .inputs = {StorageId(0), x},
                           .outputs = {StorageId(0)},
                           .may_recompute = false});
  }
  return with_fusions(std::move(problem), most, 0);
}

Names names_of(const Problem& problem, const ScheduledPoint& point) {
  Names names;
  for (size_t i = 0; i < point.schedule.size(); ++i) {
    const std::string& name = problem.ops[point.schedule[i]].name;
    const bool is_fused = i < point.fused.size() && point.fused[i] != Fused::no;
    names.push_back(is_fused ? "+" + name : name);
  }
  return names;
}

ScheduledPoint fused_within(const Problem& problem, int64_t most_bytes) {
  return fused(problem, measured(problem, given_order(problem), "given"), most_bytes);
}

TEST(FuseSteps, Sums_wait_for_the_next_as_far_as_a_kernel_and_the_bytes_permit) {
  const Problem problem = sums(5, 2);
  EXPECT_EQ(names_of(problem, fused_within(problem, 64)),
            names_of(problem, measured(problem, given_order(problem), "given")));
  const ScheduledPoint two = fused_within(problem, 128);
  EXPECT_EQ(names_of(problem, two), (Names{"make0", "make1", "add0", "+add1", "make2", "make3",
                                           "add2", "+add3", "make4", "add4"}));
  EXPECT_EQ(two.load_bytes, 128);
  EXPECT_EQ(two.seconds, 8 + 2 * 0.25);
  const Problem many = sums(5, 32);
  EXPECT_EQ(names_of(many, fused_within(many, 192)),
            (Names{"make0", "make1", "make2", "add0", "+add1", "+add2", "make3", "make4", "add3",
                   "+add4"}));
}

TEST(FuseSteps, The_scratch_of_a_kernel_counts) {
  Problem problem = sums(2, 2);
  for (Op& op : problem.ops) op.fusion.scratch_bytes = op.fusion.kind == 0 ? 0 : 256;
  EXPECT_TRUE(fused_within(problem, 128 + 192).fused.empty());
  const ScheduledPoint point = fused_within(problem, 128 + 256);
  EXPECT_EQ(point.load_bytes, 128 + 256);
  const Plan plan = assemble(problem, point.schedule, "given", {}, point.fused);
  EXPECT_EQ(check(problem, plan), std::vector<std::string>{});
  EXPECT_EQ(plan.steps[3].scratch_offset, plan.steps[2].scratch_offset);
}

TEST(FuseSteps, Nothing_waits_beyond_a_write_or_a_read_of_what_it_uses) {
  const auto with_between = [](const Op& between) {
    Problem problem = sums(2, 2);
    IdVector<OpId, Op> ops;
    for (const OpId id : problem.ops.ids()) {
      ops.push_back(problem.ops[id]);
      if (id == OpId(1)) ops.push_back(between);
    }
    problem.ops = ops;
    problem.storages.push_back({"w", 64, true});
    for (Op& op : problem.ops) {
      if (op.fusion.kind != 0) op.inputs.push_back(StorageId(3));
    }
    validate(problem);
    return fused_within(problem, 1 << 20).fused.empty();
  };
  const Op other{.name = "other",
                 .scope = "",
                 .phase = Phase::backward,
                 .inputs = {},
                 .outputs = {},
                 .may_recompute = false};
  EXPECT_FALSE(with_between(other));
  Op reads_sum = other;
  reads_sum.inputs = {StorageId(0)};
  EXPECT_TRUE(with_between(reads_sum));
  Op writes_sum = other;
  writes_sum.outputs = {StorageId(0)};
  EXPECT_TRUE(with_between(writes_sum));
  Op writes_operand = other;
  writes_operand.outputs = {StorageId(3)};
  EXPECT_TRUE(with_between(writes_operand));
}

// A storage that is made again meanwhile would be another instance of it.
TEST(FuseSteps, Nothing_waits_beyond_another_making_of_an_operand) {
  Problem problem = sums(2, 2);
  problem.ops[OpId(0)].may_recompute = true;
  std::vector<OpId> schedule = testing::ops({0, 1, 0, 2, 3});
  const ScheduledPoint point = fused(problem, measured(problem, schedule, "again"), 1 << 20);
  EXPECT_TRUE(point.fused.empty());
}

TEST(FuseSteps, Frontiers_keep_their_loads_and_every_plan_is_valid) {
  for (const auto& [most, scratch_bytes] : {std::pair{5, int64_t{0}}, {32, int64_t{1} << 16}}) {
    const Problem problem =
        with_fusions(testing::recurrent_net({.steps = 16, .layers = 2, .rows = 8, .hidden = 16}),
                     most, scratch_bytes);
    const Problem plain = without_fusions(problem);
    const Frontier before = build_frontier(plain);
    const Frontier after = build_frontier(problem);
    int64_t count = 0;
    double seconds = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < after.points().size(); ++i) {
      const ScheduledPoint& point = after.points()[i];
      EXPECT_EQ(check(problem, after.plan(i)), std::vector<std::string>{});
      EXPECT_LT(point.seconds, seconds);
      seconds = point.seconds;
      count += std::count(point.fused.begin(), point.fused.end(), Fused::sums);
    }
    EXPECT_GT(count, 0);
    EXPECT_LT(after.keep_all_seconds(), before.keep_all_seconds());
    EXPECT_LE(after.keep_all().load_bytes, before.keep_all().load_bytes);
    // In any bytes it is as fast as it was.
    for (const ScheduledPoint& point : before.points()) {
      const auto is_as_good = [&](const ScheduledPoint& each) {
        return each.load_bytes <= point.load_bytes && each.seconds <= point.seconds;
      };
      EXPECT_TRUE(std::any_of(after.points().begin(), after.points().end(), is_as_good));
    }
  }
}

TEST(FuseSteps, A_plan_that_fuses_what_it_may_not_is_found) {
  const Problem problem = sums(3, 2);
  const ScheduledPoint point = fused_within(problem, 128);
  const Plan good = assemble(problem, point.schedule, "given", {}, point.fused);
  ASSERT_EQ(check(problem, good), std::vector<std::string>{});
  ASSERT_EQ(good.steps[3].fused, Fused::sums);
  const auto is_found = [&](const Problem& of, const Plan& plan, const std::string& part) {
    const std::vector<std::string> violations = check(of, plan);
    return std::any_of(violations.begin(), violations.end(), [&](const std::string& each) {
      return each.find(part) != std::string::npos;
    });
  };
  Plan bad = good;
  bad.steps[1].fused = Fused::sums;  // two makers
  EXPECT_TRUE(is_found(problem, bad, "cannot run in one kernel with the step before"));
  bad = good;
  bad.steps[0].fused = Fused::sums;
  EXPECT_TRUE(is_found(problem, bad, "cannot run in one kernel with the step before"));
  bad = good;
  bad.steps[3].fused = Fused::no;
  EXPECT_TRUE(is_found(problem, bad, "seconds is"));
  EXPECT_TRUE(is_found(problem, bad, "live_ranges and offsets differ"));
  Problem fewer = problem;
  for (Op& op : fewer.ops) op.fusion.most = 1;
  EXPECT_TRUE(is_found(fewer, good, "cannot run in one kernel with the step before"));
  // The first operand dies with the first sum, and its bytes are taken while the kernel runs.
  bad = good;
  bad.steps[1].output_offsets[0] = bad.steps[0].output_offsets[0];
  EXPECT_FALSE(check(problem, bad).empty());
}

TEST(FuseSteps, A_fusion_that_makes_no_sense_is_refused) {
  const auto refused = [](const std::function<void(Op&)>& change) {
    Problem problem = sums(2, 2);
    change(problem.ops[OpId(1)]);
    EXPECT_THROW(validate(problem), Error);
  };
  refused([](Op& op) { op.fusion.most = 0; });
  refused([](Op& op) { op.fusion.seconds = -1; });
  refused([](Op& op) { op.fusion.scratch_bytes = 1; });
  Problem problem = sums(2, 2);
  problem.ops[OpId(0)].fusion.kind = 7;  // it makes something in the arena
  EXPECT_THROW(validate(problem), Error);
}

}  // namespace
}  // namespace snug::plan
