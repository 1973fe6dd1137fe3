// SPDX-License-Identifier: Apache-2.0
// Where searches over retention begin.
#include "plan/graphs/retention_starts.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/graphs/retention_greedy.h"
#include "plan/graphs/retention_testing.h"
#include "plan/improve/bound.h"
#include "plan/problem/test_problems.h"

namespace snug::plan {
namespace {

using testing::expect_state_is_exact;
using testing::random_training_graph;

TEST(Starts, Only_what_a_cut_keeps_is_in_memory_at_its_moment) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Problem problem = random_training_graph(seed, {.forward_ops = 20});
    const ProblemIndex index(problem);
    const StageGraph graph(index, given_order(problem));
    const OpId loss = loss_instant(index);
    ASSERT_NE(loss, index.end_op());
    const int32_t stage = loss.number();  // in the given order
    const int64_t peak = analyse(problem, given_order(problem)).load_bytes;
    const std::vector<ArenaId> storages = droppable(graph);
    for (const std::vector<StorageId>& kept :
         MomentCuts(index, loss).kept_sets(std::vector{peak / 2})) {
      Retention state(graph, peak / 2);
      if (!keep_across(graph, state, storages, stage, kept)) continue;
      expect_state_is_exact(problem, state);
      for (const ArenaId id : storages) {
        const bool is_across = state.is_retained(id, stage) && state.is_retained(id, stage + 1);
        const auto& readers = index.op(loss).inputs;
        const StorageId storage = graph.storage_ids[id];
        const bool is_read = std::find(readers.begin(), readers.end(), storage) != readers.end();
        if (!is_across || is_read || graph.producer[id] >= stage) continue;
        EXPECT_NE(std::find(kept.begin(), kept.end(), storage), kept.end()) << seed;
      }
    }
  }
}

TEST(Starts, Are_within_the_limit_and_cheapest_first) {
  size_t found = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Problem problem = random_training_graph(seed, {.forward_ops = 40});
    const ProblemIndex index(problem);
    const StageGraph graph(index, given_order(problem));
    const int64_t limit = analyse(problem, given_order(problem)).load_bytes * 7 / 10;
    Retention state(graph, limit);
    Random random(seed);
    const std::vector<ArenaId> storages = droppable(graph);
    StartLimits limits;
    limits.cuts = 8;
    limits.work = 1'000'000;
    const std::vector<Start> starts =
        StartFinder(index, graph, state, storages).find({}, random, limits);
    found += starts.size();
    double before = 0;
    for (const Start& each : starts) {
      state.restore(each.state);
      expect_state_is_exact(problem, state);
      EXPECT_LE(state.peak(), limit);
      EXPECT_EQ(state.peak(), each.peak_bytes);
      EXPECT_GE(state.extra_cost(), before);
      before = state.extra_cost();
    }
  }
  EXPECT_GT(found, 0U);
}

}  // namespace
}  // namespace snug::plan
