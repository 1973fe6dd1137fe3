// SPDX-License-Identifier: Apache-2.0
// The incremental state against exact liveness, and the steps that improve it.
#include "plan/graphs/retention.h"

#include <gtest/gtest.h>

#include <random>

#include "plan/graphs/retention_greedy.h"
#include "plan/graphs/retention_ruin.h"
#include "plan/graphs/retention_testing.h"
#include "plan/problem/test_problems.h"

namespace snug::plan {
namespace {

using testing::add_random_variants;
using testing::expect_state_is_exact;
using testing::random_training_graph;

// Two ops that do not depend on each other, and one that reads both.
Problem pair_and_reader() {
  Problem problem;
  problem.alignment = 1;
  for (const char* name : {"a", "b", "c"}) problem.storages.push_back({name, 64, false});
  const auto op = [&](const char* name, std::vector<StorageId> inputs, StorageId output) {
    Op made;
    made.name = name;
    made.seconds = 1;
    made.inputs = std::move(inputs);
    made.outputs = {output};
    problem.ops.push_back(made);
  };
  op("a", {}, StorageId(0));
  op("b", {}, StorageId(1));
  op("c", {StorageId(0), StorageId(1)}, StorageId(2));
  problem.keep = {StorageId(2)};
  return problem;
}

TEST(Retention, Every_change_keeps_the_state_equal_to_its_schedule) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Problem problem =
        random_training_graph(seed, {.forward_ops = 14, .has_updates = seed % 3 == 0});
    if (seed % 2 == 0) add_random_variants(seed, problem);
    validate(problem);
    const ProblemIndex index(problem);
    const StageGraph graph(index, given_order(problem));
    Retention state(graph, 640);
    expect_state_is_exact(problem, state);
    const std::vector<ArenaId> storages = droppable(graph);
    if (storages.empty()) continue;
    std::mt19937_64 random(seed);
    for (int32_t i = 0; i < 200; ++i) {
      const ArenaId id = storages[random() % storages.size()];
      const int32_t count = state.touches().count(id);
      if (count < 2) continue;
      const auto at = static_cast<int32_t>(random() % static_cast<size_t>(count - 1));
      const int32_t begin = state.touches().nth(id, at);
      const int32_t end = state.touches().nth(id, at + 1);
      const std::vector<OpId> before = state.schedule();
      const int64_t peak = state.peak();
      const auto middle = begin + static_cast<int32_t>(random() % static_cast<size_t>(end - begin));
      const bool is_valid = state.is_retained(id, end)
                                ? state.set(id, begin + 1, std::max(begin + 1, middle), false)
                                : state.set(id, middle + 1, end, true);
      if (is_valid) expect_state_is_exact(problem, state);
      if (is_valid && random() % 2 == 0) {
        state.commit();
        state.set_limit(static_cast<int64_t>(320 + random() % 640));
        expect_state_is_exact(problem, state);
      } else {
        state.roll_back();
        EXPECT_EQ(state.schedule(), before);
        EXPECT_EQ(state.peak(), peak);
      }
      if (HasFatalFailure()) return;
    }
    ASSERT_TRUE(state.drop_all());
    expect_state_is_exact(problem, state);
  }
}

TEST(Retention, A_run_that_there_seems_to_be_no_room_for_cannot_be_taken_out) {
  int32_t refused = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Problem problem = random_training_graph(seed, {.forward_ops = 20});
    const ProblemIndex index(problem);
    const StageGraph graph(index, given_order(problem));
    Retention state(graph, 0);
    const std::vector<ArenaId> storages = droppable(graph);
    state.set_limit(state.peak() * 7 / 10);
    (void)drop_until_fits(state, storages);
    state.set_limit(state.peak());
    for (int32_t stage = 0; stage <= graph.op_count; ++stage) {
      const std::vector<int32_t> runs(state.runs(stage).begin(), state.runs(stage).end());
      for (const int32_t op : runs) {
        if (may_keep_outputs(graph, state, op, stage)) continue;
        ++refused;
        const size_t mark = state.mark();
        EXPECT_FALSE(keep_outputs(graph, state, op, stage) && state.fits()) << op << " " << stage;
        state.roll_back(mark);
      }
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(Retention, A_snapshot_comes_back_the_same) {
  const Problem problem = random_training_graph(5, {.forward_ops = 20});
  const ProblemIndex index(problem);
  const StageGraph graph(index, given_order(problem));
  Retention state(graph, 0);
  (void)drop_until_fits(state, droppable(graph));
  const auto snapshot = state.snapshot();
  const std::vector<OpId> schedule = state.schedule();
  const int64_t peak = state.peak();
  ASSERT_TRUE(state.drop_all());
  state.restore(snapshot);
  EXPECT_EQ(state.schedule(), schedule);
  EXPECT_EQ(state.peak(), peak);
}

TEST(Retention, Takes_the_schedule_of_another_state) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Problem problem = random_training_graph(seed, {.forward_ops = 20});
    const ProblemIndex index(problem);
    const StageGraph graph(index, given_order(problem));
    Retention from(graph, 0);
    (void)drop_until_fits(from, droppable(graph));
    Retention to(graph, 0);
    ASSERT_TRUE(to.take(from.schedule()));
    EXPECT_EQ(to.schedule(), from.schedule());
    EXPECT_EQ(to.peak(), from.peak());
    expect_state_is_exact(problem, to);
  }
}

TEST(Retention, Takes_a_schedule_without_the_runs_that_nothing_needs) {
  // "a" is kept for a second run of "b" whose output nothing reads.
  const Problem problem = [] {
    Problem made = pair_and_reader();
    made.ops[OpId(1)].inputs = {StorageId(0)};
    made.ops[OpId(2)].inputs = {StorageId(1)};
    return made;
  }();
  const ProblemIndex index(problem);
  const StageGraph graph(index, given_order(problem));
  Retention state(graph, 0);
  ASSERT_TRUE(state.take(std::vector{OpId(0), OpId(1), OpId(2), OpId(1)}));
  EXPECT_EQ(state.schedule(), given_order(problem));
  expect_state_is_exact(problem, state);
  EXPECT_FALSE(state.is_retained(ArenaId(0), 3));
}

TEST(Retention, Takes_no_schedule_whose_first_runs_leave_the_order) {
  const Problem problem = pair_and_reader();
  const ProblemIndex index(problem);
  const StageGraph graph(index, given_order(problem));
  Retention state(graph, 0);
  const std::vector<OpId> before = state.schedule();
  EXPECT_FALSE(state.take(std::vector{OpId(1), OpId(0), OpId(2)}));
  EXPECT_FALSE(state.take(std::vector{OpId(0), OpId(1)}));  // not all of them
  EXPECT_EQ(state.schedule(), before);
}

TEST(Squeeze, Ends_at_the_same_peak_whatever_the_target_if_it_is_not_reached) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Problem problem = random_training_graph(seed, {.forward_ops = 20});
    const ProblemIndex index(problem);
    const StageGraph graph(index, given_order(problem));
    const std::vector<ArenaId> storages = droppable(graph);
    const auto peak_after = [&](int64_t target) {
      Retention state(graph, target);
      Random random(seed);
      (void)squeeze(graph, state, storages, random, {.work = 1'000'000});
      expect_state_is_exact(problem, state);
      EXPECT_EQ(state.limit_bytes(), target);
      return state.peak();
    };
    const int64_t smallest = peak_after(1);
    EXPECT_EQ(peak_after(2), smallest);
    EXPECT_EQ(peak_after(smallest), smallest);
    EXPECT_LE(peak_after(smallest + 100), smallest + 100);
    EXPECT_LT(smallest, analyse(problem, given_order(problem)).load_bytes);
  }
}

TEST(Ruin, Stays_within_the_limit_and_never_ends_dearer) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Problem problem =
        random_training_graph(seed, {.forward_ops = 20, .has_updates = seed % 2 == 0});
    const ProblemIndex index(problem);
    const StageGraph graph(index, given_order(problem));
    const int64_t limit = analyse(problem, given_order(problem)).load_bytes * 7 / 10;
    Retention state(graph, limit);
    if (!drop_until_fits(state, droppable(graph))) continue;
    const double before = state.extra_cost();
    Random random(seed);
    EXPECT_TRUE(ruin_and_recreate(graph, state, droppable(graph), random,
                                  {.work = 1'000'000, .steps = 2000}));
    expect_state_is_exact(problem, state);
    EXPECT_TRUE(state.fits());
    EXPECT_LE(state.extra_cost(), before);
  }
}

TEST(Ruin, Begins_above_the_limit_too_and_says_whether_it_got_below) {
  int32_t below = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Problem problem = random_training_graph(seed, {.forward_ops = 20});
    const ProblemIndex index(problem);
    const StageGraph graph(index, given_order(problem));
    const int64_t peak = analyse(problem, given_order(problem)).load_bytes;
    for (const int64_t limit : {peak * 8 / 10, peak / 100}) {
      Retention state(graph, limit);
      Random random(seed);
      const bool fits = ruin_and_recreate(graph, state, droppable(graph), random,
                                          {.work = 1'000'000, .steps = 2000});
      EXPECT_EQ(fits, state.fits());
      EXPECT_FALSE(fits && limit == peak / 100);
      below += fits ? 1 : 0;
      expect_state_is_exact(problem, state);
    }
  }
  EXPECT_GE(below, 5);
}

}  // namespace
}  // namespace snug::plan
