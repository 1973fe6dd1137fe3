// SPDX-License-Identifier: Apache-2.0
#include "plan/improve/fuse_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "plan/frontier/frontier.h"
#include "plan/improve/bound.h"
#include "plan/placement/assemble.h"
#include "plan/problem/json.h"
#include "plan/problem/row_runs.h"
#include "plan/problem/test_problems.h"
#include "plan/problem/validate.h"
#include "snug/error.h"

namespace snug::plan {
namespace {

constexpr int64_t kRows = 4096;
constexpr int64_t kUnit = int64_t{4} << 20;  // many pieces, so a buffer is small beside it

// What every operand in the arena is read and made by.
RowwiseOp by_rows(const Problem& problem, const Op& op, int64_t rows = kRows) {
  RowwiseOp found{.form = {.grid = {.rows = rows}}, .saved_seconds = op.seconds / 2};
  const auto bytes = [&](StorageId id) {
    const Storage& storage = problem.storages[id];
    return storage.resident ? 0 : storage.bytes / rows;
  };
  for (const StorageId id : op.inputs) found.form.inputs.push_back(bytes(id));
  for (const StorageId id : op.outputs) found.form.outputs.push_back(bytes(id));
  return found;
}

// x0 -> x1 -> ... -> xn, one unit each; the last is kept.
Problem chain(int32_t n) {
  Problem problem;
  problem.storages.push_back({"x0", kUnit, true});
  for (int32_t i = 0; i < n; ++i) {
    const StorageId from(i);
    const StorageId to = problem.storages.add({"x" + std::to_string(i + 1), kUnit, false});
    problem.ops.push_back({.name = "f" + std::to_string(i),
                           .scope = "",
                           .phase = Phase::backward,
                           .seconds = 1,
                           .inputs = {from},
                           .outputs = {to},
                           .may_recompute = false});
  }
  problem.keep = {StorageId(n)};
  for (Op& op : problem.ops) op.rowwise = by_rows(problem, op);
  return problem;
}

ScheduledPoint point_of(const Problem& problem) {
  ScheduledPoint given = measured(problem, given_order(problem), "given");
  const int64_t load_bytes = given.load_bytes;
  return fused(problem, std::move(given), load_bytes);
}

int64_t programs_in(const FusedSteps& fused) {
  return std::count(fused.begin(), fused.end(), Fused::rows);
}

Plan plan_of(const Problem& problem, const ScheduledPoint& point) {
  return assemble(problem, point.schedule, "given", {}, point.fused);
}

TEST(FuseRows, What_ops_hand_on_is_in_no_memory) {
  const Problem problem = chain(4);
  validate(problem);
  const ScheduledPoint point = point_of(problem);
  EXPECT_EQ(point.fused, (FusedSteps{Fused::no, Fused::rows, Fused::rows, Fused::rows}));
  // Two units before; now the last, and buffers of three.
  EXPECT_EQ(measured(problem, given_order(problem), "").load_bytes, 2 * kUnit);
  EXPECT_LE(point.load_bytes, 2 * kUnit);
  // The operand of the first is resident and no operand by rows; every other one is in a cache.
  EXPECT_DOUBLE_EQ(point.seconds, 4 - 0.5 - 0.5 - 0.5 - 0.25);
  const Plan plan = plan_of(problem, point);
  EXPECT_EQ(check(problem, plan), std::vector<std::string>{});
  EXPECT_EQ(plan.steps[0].output_offsets[0], kInsideOffset);
  EXPECT_GE(plan.steps[3].output_offsets[0], 0);
  EXPECT_EQ(problem_from_json(to_json(problem)), problem);
  EXPECT_EQ(plan_from_json(to_json(plan)), plan);
}

TEST(FuseRows, What_a_program_saves_is_said_in_bytes_and_why_a_step_does_not_join) {
  Problem problem = chain(4);
  const std::vector<OpId> schedule = given_order(problem);
  const ScheduledPoint point = point_of(problem);
  const std::vector<RowRun> runs = row_runs(problem, point.schedule, point.fused);
  ASSERT_EQ(runs.size(), 1U);
  // The first writes what it hands on into a buffer, the others read from one, too, and the last
  // writes to memory.
  EXPECT_EQ(runs[0].saved_bytes, (std::vector<int64_t>{kUnit, 2 * kUnit, 2 * kUnit, kUnit}));
  const auto joining = [&](const std::function<void(Op&)>& change) {
    Problem changed = problem;
    change(changed.ops[OpId(1)]);
    const LastReads reads(changed, schedule);
    RowRunBuilder builder(changed, schedule, reads, 0);
    EXPECT_EQ(builder.join(), RowJoin::joins);
    return builder.join();
  };
  EXPECT_EQ(joining([](Op&) {}), RowJoin::joins);
  EXPECT_EQ(joining([](Op& op) { op.rowwise = {}; }), RowJoin::is_not_by_rows);
  EXPECT_EQ(joining([](Op& op) { op.rowwise.own().has_head = true; }), RowJoin::has_head);
  EXPECT_EQ(joining([](Op& op) { op.inputs = {StorageId(0)}; }), RowJoin::shares_nothing);
  EXPECT_EQ(joining([](Op& op) { op.rowwise.own().form.grid.rows = kRows / 2; }),
            RowJoin::is_cut_apart);
}

TEST(FuseRows, No_program_needs_more_than_the_schedule_has) {
  // The scratch of the program is more than what its ops need one after the other.
  Problem problem = chain(3);
  for (Op& op : problem.ops) op.rowwise.own().form.scratch_bytes = kUnit / 2;
  EXPECT_TRUE(point_of(problem).fused.empty());
  for (Op& op : problem.ops) op.scratch_bytes = kUnit;
  const ScheduledPoint point = point_of(problem);
  EXPECT_GT(programs_in(point.fused), 0);
  EXPECT_EQ(check(problem, plan_of(problem, point)), std::vector<std::string>{});
  EXPECT_LE(point.load_bytes, 3 * kUnit);
}

TEST(FuseRows, What_is_read_elsewhere_stays_in_memory) {
  Problem problem = chain(3);
  // x1 is read once more, as a whole.
  const StorageId last = problem.storages.add({"y", kUnit, false});
  problem.ops.push_back({.name = "whole",
                         .scope = "",
                         .phase = Phase::backward,
                         .seconds = 1,
                         .inputs = {StorageId(1)},
                         .outputs = {last},
                         .may_recompute = false});
  problem.keep.push_back(last);
  const ScheduledPoint point = point_of(problem);
  ASSERT_EQ(programs_in(point.fused), 2);
  const Plan plan = plan_of(problem, point);
  EXPECT_EQ(check(problem, plan), std::vector<std::string>{});
  EXPECT_GE(plan.steps[0].output_offsets[0], 0);
  EXPECT_EQ(plan.steps[1].output_offsets[0], kInsideOffset);
}

TEST(FuseRows, A_small_op_in_between_runs_before) {
  Problem problem = chain(3);
  const StorageId constant = problem.storages.add({"zeros", 512, false});
  const Op fill{.name = "fill",
                .scope = "",
                .phase = Phase::backward,
                .seconds = 1,
                .inputs = {},
                .outputs = {constant},
                .may_recompute = false};
  problem.ops.insert(problem.ops.begin() + 2, fill);
  problem.ops[OpId(3)].inputs.push_back(constant);
  problem.ops[OpId(3)].rowwise.own().form.inputs.push_back(0);
  validate(problem);
  const ScheduledPoint given = measured(problem, given_order(problem), "given");
  const ScheduledPoint point = fused(problem, given, given.load_bytes);
  EXPECT_EQ(point.schedule, testing::ops({2, 0, 1, 3}));
  EXPECT_EQ(point.fused, (FusedSteps{Fused::no, Fused::no, Fused::rows, Fused::rows}));
  EXPECT_EQ(check(problem, plan_of(problem, point)), std::vector<std::string>{});
  // Not where it reads what one of them makes.
  problem.ops[OpId(2)].inputs = {StorageId(1)};
  const ScheduledPoint other = fused(problem, given, given.load_bytes);
  EXPECT_EQ(other.schedule, given.schedule);
}

TEST(FuseRows, What_may_be_written_over_an_operand_still_is) {
  Problem problem = chain(4);
  problem.storages[StorageId(0)].resident = false;
  problem.ops.insert(problem.ops.begin(), Op{.name = "make",
                                             .scope = "",
                                             .phase = Phase::backward,
                                             .seconds = 1,
                                             .inputs = {},
                                             .outputs = {StorageId(0)},
                                             .may_recompute = false});
  for (int32_t i = 1; i <= 4; ++i) {
    problem.ops[OpId(i)].reuses = {{StorageId(i), StorageId(i - 1)}};
    problem.ops[OpId(i)].rowwise = by_rows(problem, problem.ops[OpId(i)]);
  }
  validate(problem);
  const ScheduledPoint before = measured(problem, given_order(problem), "given");
  EXPECT_EQ(before.load_bytes, kUnit);
  // Nothing but scratch is added, for which there is no room.
  EXPECT_TRUE(point_of(problem).fused.empty());
  const ScheduledPoint point = fused(problem, before, 2 * kUnit);
  EXPECT_EQ(programs_in(point.fused), 3);
  const Plan plan = plan_of(problem, point);
  EXPECT_EQ(check(problem, plan), std::vector<std::string>{});
  EXPECT_EQ(plan.steps[4].output_offsets[0], plan.steps[1].input_offsets[0]);
}

TEST(FuseRows, What_another_kernel_makes_first_is_in_memory) {
  Problem problem = chain(3);
  problem.ops[OpId(0)].rowwise.own().has_head = true;
  const ScheduledPoint before = measured(problem, given_order(problem), "given");
  ScheduledPoint point = fused(problem, before, 3 * kUnit);
  ASSERT_EQ(programs_in(point.fused), 2);
  EXPECT_GE(plan_of(problem, point).steps[0].output_offsets[0], 0);
  EXPECT_EQ(check(problem, plan_of(problem, point)), std::vector<std::string>{});
  problem.ops[OpId(1)].rowwise.own().has_head = true;
  point = fused(problem, before, 3 * kUnit);
  EXPECT_EQ(point.fused, (FusedSteps{Fused::no, Fused::no, Fused::rows}));
}

TEST(FuseRows, What_another_kernel_makes_first_may_stay_apart) {
  Problem problem = chain(4);
  problem.ops[OpId(0)].rowwise.own().has_head = true;
  problem.ops[OpId(2)].rowwise.own().has_head = true;
  const LivenessTable table(problem);
  const std::vector<OpId> schedule = given_order(problem);
  const Liveness live = analyse(table, schedule);
  const auto fused = [&](Heads heads) {
    return fuse_rows(table, schedule, {}, live, 4 * kUnit, heads).fused;
  };
  EXPECT_EQ(fused(Heads::joined), (FusedSteps{Fused::no, Fused::rows, Fused::no, Fused::rows}));
  EXPECT_TRUE(fused(Heads::apart).empty());
  problem.ops[OpId(2)].rowwise.own().has_head = false;
  EXPECT_EQ(fused(Heads::apart), (FusedSteps{Fused::no, Fused::no, Fused::rows, Fused::rows}));
}

// Some ops are computed by rows, some operands are read as a whole, some outputs are there only in
// the end, and rows are of several sizes.
Problem with_rows(Problem problem, uint32_t seed) {
  std::mt19937 random(seed);
  const auto one_of = [&](uint32_t n) { return random() % n == 0; };
  for (Op& op : problem.ops) {
    if (one_of(4)) continue;
    const auto is_resident = [&](StorageId id) { return problem.storages[id].resident; };
    if (std::any_of(op.outputs.begin(), op.outputs.end(), is_resident)) continue;
    RowwiseOp rows = by_rows(problem, op, one_of(3) ? 8 : 16);
    for (int64_t& bytes : rows.form.inputs) bytes = one_of(6) ? 0 : bytes;
    for (int64_t& bytes : rows.form.outputs) bytes = one_of(8) ? 0 : bytes;
    rows.form.scratch_bytes = one_of(4) ? 64 : 0;
    rows.has_head = one_of(6);
    if (one_of(3)) {  // several nodes, which are faster as a program of their own
      rows.apart_seconds = op.seconds;
      op.seconds *= 1 - 0.1 * static_cast<double>(random() % 5);
      rows.saved_seconds = op.seconds / 2;
    }
    op.rowwise = std::move(rows);
  }
  return problem;
}

std::set<std::vector<OpId>> schedules_without_rows(const Frontier& frontier) {
  std::set<std::vector<OpId>> schedules;
  for (const ScheduledPoint& point : frontier.points()) {
    if (!has_row_programs(point)) schedules.insert(point.schedule);
  }
  return schedules;
}

TEST(FuseRows, Frontiers_of_random_graphs_are_valid_and_no_worse) {
  int64_t count = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Problem plain = seed % 3 == 0
                              ? testing::encoder({.layers = 2,
                                                  .tokens = 64,
                                                  .hidden = 64,
                                                  .heads = 2,
                                                  .accumulates = seed % 2 == 0})
                              : testing::random_training_graph(
                                    seed, {.forward_ops = 14, .has_updates = seed % 2 == 0});
    const Problem problem = with_rows(plain, seed);
    validate(problem);
    const Frontier before = build_frontier(plain);
    const Frontier after = build_frontier(problem);
    for (size_t i = 0; i < after.points().size(); ++i) {
      EXPECT_EQ(check(problem, after.plan(i)), std::vector<std::string>{}) << seed;
      EXPECT_GE(after.points()[i].load_bytes, after.bound().bytes) << seed;
      EXPECT_GE(after.points()[i].seconds,
                (1 - 1e-9) * lower_bound_seconds(problem, after.points()[i].load_bytes))
          << seed;
      count += programs_in(after.points()[i].fused);
    }
    EXPECT_EQ(check(problem, after.keep_all()), std::vector<std::string>{}) << seed;
    EXPECT_EQ(schedules_without_rows(after), schedules_without_rows(before)) << seed;
    for (const ScheduledPoint& point : before.points()) {
      const auto is_as_good = [&](const ScheduledPoint& each) {
        return each.load_bytes <= point.load_bytes && each.seconds <= point.seconds * (1 + 1e-12);
      };
      EXPECT_TRUE(std::any_of(after.points().begin(), after.points().end(), is_as_good)) << seed;
    }
  }
  EXPECT_GT(count, 100);
}

TEST(FuseRows, Fewer_programs_are_those_away_from_the_peak) {
  int64_t left_out = 0;
  for (uint32_t seed = 0; seed < 30; ++seed) {
    const Problem problem =
        with_rows(testing::random_training_graph(seed, {.forward_ops = 14}), seed);
    const LivenessTable table(problem);
    const Frontier frontier = build_frontier(problem);
    for (const ScheduledPoint& point : frontier.points()) {
      if (has_row_programs(point)) continue;
      const Liveness live = analyse(table, point.schedule, point.fused);
      const RowPrograms all = fuse_rows(table, point.schedule, point.fused, live, point.load_bytes);
      const RowPrograms same = programs_within(all, point.load_bytes);
      EXPECT_EQ(same.fused, all.fused) << seed;
      EXPECT_EQ(same.runs.size(), all.runs.size()) << seed;
      const int64_t most = point.load_bytes / 2;
      const RowPrograms fewer = programs_within(all, most);
      for (const int64_t bytes : fewer.bytes) EXPECT_LE(bytes, most) << seed;
      const StepLoads with_all = loads_of(table, point.schedule, all.fused, all.runs);
      const StepLoads with_fewer = loads_of(table, point.schedule, fewer.fused, fewer.runs);
      EXPECT_LE(with_fewer.load_bytes, point.load_bytes) << seed;
      EXPECT_GE(with_fewer.seconds, with_all.seconds) << seed;
      EXPECT_LE(with_fewer.seconds, point.seconds * (1 + 1e-12)) << seed;
      const ScheduledPoint some{point.schedule, point.strategy, with_fewer.load_bytes,
                                with_fewer.seconds, fewer.fused};
      EXPECT_EQ(check(problem, plan_of(problem, some)), std::vector<std::string>{}) << seed;
      left_out += static_cast<int64_t>(all.runs.size() - fewer.runs.size());
    }
  }
  EXPECT_GT(left_out, 20);
}

// Every weight that is only read is packed once, and who read it reads that.
Problem with_packed_weights(const Problem& problem) {
  Problem packed = problem;
  packed.ops = {};
  std::vector<Op> readers(problem.ops.begin(), problem.ops.end());
  for (const StorageId id : problem.storages.ids()) {
    const auto writes = [id](const Op& op) {
      return std::find(op.outputs.begin(), op.outputs.end(), id) != op.outputs.end();
    };
    if (!problem.storages[id].resident ||
        std::any_of(problem.ops.begin(), problem.ops.end(), writes))
      continue;
    const std::string name = problem.storages[id].name + "/packed";
    const StorageId made = packed.storages.add({name, problem.storages[id].bytes, false});
    for (Op& op : readers) std::replace(op.inputs.begin(), op.inputs.end(), id, made);
    packed.ops.push_back({.name = name,
                          .scope = "",
                          .phase = Phase::prologue,
                          .seconds = 1e-6,
                          .inputs = {id},
                          .outputs = {made},
                          .may_recompute = false});
  }
  for (Op& op : readers) packed.ops.push_back(std::move(op));
  return packed;
}

TEST(FuseRows, Kernels_are_taken_over_where_weights_are_packed) {
  int64_t programs = 0;
  int64_t of_model = 0;
  int64_t packings = 0;
  for (uint32_t seed = 0; seed < 30; ++seed) {
    const Problem plain =
        seed % 3 == 0
            ? testing::encoder({.layers = 2, .tokens = 64, .hidden = 64, .heads = 2})
            : testing::random_training_graph(seed, {.forward_ops = 14, .has_updates = false});
    const Problem model = with_rows(plain, seed);
    const Problem problem = with_packed_weights(model);
    validate(problem);
    const Frontier schedules = build_frontier(model);
    const Frontier frontier = build_frontier_beside(problem, model, schedules);
    ASSERT_EQ(frontier.points().size(), schedules.points().size()) << seed;
    for (size_t i = 0; i < frontier.points().size(); ++i) {
      const Plan plan = frontier.plan(i);
      EXPECT_EQ(check(problem, plan), std::vector<std::string>{}) << seed;
      EXPECT_EQ(plan.load_bytes, frontier.points()[i].load_bytes) << seed;
      programs += programs_in(frontier.points()[i].fused);
      of_model += programs_in(schedules.points()[i].fused);
    }
    EXPECT_EQ(programs, of_model) << seed;
    packings += static_cast<int64_t>(problem.ops.size() - model.ops.size());
  }
  EXPECT_GT(programs, 50);
  EXPECT_GT(packings, 30);
}

TEST(FuseRows, A_plan_that_fuses_what_it_may_not_is_found) {
  const Problem problem = chain(4);
  const Plan good = plan_of(problem, point_of(problem));
  ASSERT_EQ(check(problem, good), std::vector<std::string>{});
  const auto is_found = [&](const Problem& of, const Plan& plan, const std::string& part) {
    const std::vector<std::string> violations = check(of, plan);
    return std::any_of(violations.begin(), violations.end(), [&](const std::string& each) {
      return each.find(part) != std::string::npos;
    });
  };
  Problem other = problem;
  other.ops[OpId(2)].rowwise = {};
  EXPECT_TRUE(is_found(other, good, "cannot run in a row program"));
  other = problem;
  other.ops[OpId(2)].rowwise.own().has_head = true;
  EXPECT_TRUE(is_found(other, good, "cannot run in a row program"));
  other = problem;
  other.ops[OpId(2)].rowwise.own().form.inputs[0] = 0;
  EXPECT_TRUE(is_found(other, good, "cannot run in a row program"));
  other = problem;
  other.ops[OpId(1)].rowwise.own().form.outputs[0] = 0;
  EXPECT_TRUE(is_found(other, good, "in no memory"));
  other = problem;
  other.keep.push_back(StorageId(2));
  EXPECT_TRUE(is_found(other, good, "is kept but in no memory"));
  Plan bad = good;
  bad.steps[3].output_offsets[0] = kInsideOffset;
  EXPECT_TRUE(is_found(problem, bad, "is kept but in no memory"));
  bad = good;
  bad.steps[2].saved_seconds = 2;
  EXPECT_TRUE(is_found(problem, bad, "saves more time than it can"));
  bad = good;
  bad.steps[3].fused = Fused::no;
  EXPECT_FALSE(check(problem, bad).empty());
  bad = good;
  bad.steps[0].fused = Fused::rows;
  EXPECT_FALSE(check(problem, bad).empty());
  bad = good;
  bad.steps[1].scratch_offset += 64;
  EXPECT_TRUE(is_found(problem, bad, "has another scratch"));
}

TEST(FuseRows, Rows_that_make_no_sense_are_refused) {
  const auto refused = [](const std::function<void(Op&)>& change) {
    Problem problem = chain(2);
    change(problem.ops[OpId(1)]);
    EXPECT_THROW(validate(problem), Error);
  };
  refused([](Op& op) { op.rowwise.own().form.inputs.clear(); });
  refused([](Op& op) { op.rowwise.own().form.outputs[0] = kUnit; });
  refused([](Op& op) { op.rowwise.own().form.outputs[0] = -1; });
  refused([](Op& op) { op.rowwise.own().form.grid.step = 0; });
  refused([](Op& op) { op.rowwise.own().form.grid = {.rows = kRows, .step = 2, .grain = 3}; });
  refused([](Op& op) { op.rowwise.own().form.threads = 0; });
  refused([](Op& op) { op.rowwise.own().form.scratch_bytes = 1; });
  refused([](Op& op) { op.rowwise.own().saved_seconds = 2; });
  refused([](Op& op) { op.rowwise.own().apart_seconds = 0.5; });
}

}  // namespace
}  // namespace snug::plan
