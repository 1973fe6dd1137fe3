// SPDX-License-Identifier: Apache-2.0
// The search on general graphs: answers against exhaustive search, published cases.
#include "plan/frontier/remat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/stop.h"
#include "plan/graphs/reorder.h"
#include "plan/graphs/retention_search.h"
#include "plan/graphs/small_exact.h"
#include "plan/graphs/stage_graph.h"
#include "plan/improve/bound.h"
#include "plan/problem/brute_force.h"
#include "plan/problem/liveness.h"
#include "plan/problem/test_problems.h"
#include "plan/problem/validate.h"

namespace snug::plan {
namespace {

using testing::add_random_variants;
using testing::random_training_graph;

// Small enough for exhaustive search: at most 12 ops.
Problem tiny_graph(uint64_t seed) {
  return random_training_graph(seed, {.forward_ops = 3 + static_cast<int32_t>(seed % 3)});
}

// However early: the order that was given is a schedule.
TEST(Search, Without_any_time_the_given_order_is_the_answer) {
  const Problem problem = random_training_graph(3, {});
  const StopScope late({.cancel = nullptr, .deadline = StopClock::now()});
  const RematResult result = solve_remat(problem, 1, {});
  EXPECT_TRUE(result.is_stopped);
  EXPECT_FALSE(result.fits);
  EXPECT_EQ(result.schedule, given_order(problem));
}

TEST(Search, Many_ops_are_lowered_far_below_keep_all) {
  const Problem problem = random_training_graph(3, {.forward_ops = 300});
  const ProblemIndex index(problem);
  ASSERT_GT(index.op_count(), 500);
  const StageGraph graph(index, given_order(problem));
  const RetentionResult refused = search_retention(index, graph, 1, {.factor = 0.05});
  EXPECT_FALSE(refused.fits);
  EXPECT_EQ(analyse(problem, refused.schedule).load_bytes, refused.peak_bytes);
  EXPECT_LT(refused.peak_bytes, analyse(problem, given_order(problem)).load_bytes * 6 / 10);
  EXPECT_EQ(search_retention(index, graph, 1, {.factor = 0.05}).schedule, refused.schedule);
}

TEST(Search, A_refused_peak_is_the_same_whatever_was_asked_and_works_as_a_budget) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const Problem problem = random_training_graph(seed, {.forward_ops = 25});
    const ProblemIndex index(problem);
    const StageGraph graph(index, given_order(problem));
    const RetentionResult refused = search_retention(index, graph, 1, {.factor = 0.05});
    ASSERT_FALSE(refused.fits);
    EXPECT_GE(refused.peak_bytes, pinned_order_bound(graph).bytes);
    const int64_t smallest = refused.peak_bytes;
    EXPECT_EQ(search_retention(index, graph, smallest - 1, {.factor = 0.05}).peak_bytes, smallest);
    EXPECT_TRUE(search_retention(index, graph, smallest, {.factor = 0.05}).fits);
  }
}

// A chain of dear small storages, and a cheap big output of each that a backward op reads: the big
// ones are made again and the small ones stay, though the forward part reads none of them twice.
TEST(Search, Small_inputs_stay_where_big_outputs_are_made_again) {
  constexpr int32_t kUnits = 60;
  Problem problem;
  problem.alignment = 1;
  const auto op = [&](double seconds, std::vector<StorageId> inputs, int64_t bytes, bool again) {
    problem.storages.push_back({"s", bytes, false});
    Op made;
    made.name = "op" + std::to_string(problem.ops.size());
    made.seconds = seconds;
    made.inputs = std::move(inputs);
    made.outputs = {problem.storages.end_id() - 1};
    made.may_recompute = again;
    problem.ops.push_back(made);
    return made.outputs.front();
  };
  StorageId small = op(1, {}, 1, false);
  std::vector<StorageId> big;
  for (int32_t i = 0; i < kUnits; ++i) {
    small = op(50, {small}, 1, true);
    big.push_back(op(1, {small}, 100, true));
  }
  StorageId grad = op(1, {small}, 100, false);
  for (int32_t i = kUnits - 1; i >= 0; --i)
    grad = op(1, {grad, big[static_cast<size_t>(i)]}, 100, false);
  problem.keep = {grad};
  validate(problem);
  const ProblemIndex index(problem);
  const StageGraph graph(index, given_order(problem));
  // Room for one output, two gradients and all small storages.
  const RetentionResult found = search_retention(index, graph, 300 + kUnits + 2, {.factor = 0.01});
  ASSERT_TRUE(found.fits);
  EXPECT_LE(found.seconds, graph.base_cost + kUnits);
}

TEST(Exact, Equals_the_exhaustive_oracle_at_every_budget) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Problem problem = tiny_graph(seed);
    if (problem.ops.size() > 9) continue;  // the oracle is slow
    const ProblemIndex index(problem);
    const int64_t top = analyse(problem, given_order(problem)).load_bytes;
    for (int64_t budget = top; budget > 0; budget -= 64) {
      const std::optional<double> expected = testing::fewest_seconds(problem, budget);
      const ExactAnswer answer = cheapest_schedule(index, budget, /*may_reorder=*/true);
      ASSERT_TRUE(answer.is_complete);
      ASSERT_EQ(answer.schedule.has_value(), expected.has_value()) << seed << " " << budget;
      if (!expected) break;
      const Liveness live = analyse(problem, *answer.schedule);
      EXPECT_LE(live.load_bytes, budget);
      EXPECT_NEAR(live.seconds, *expected, 1e-9);
    }
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kComparedGraphs = 6;  // the exhaustive search takes twenty times as long
#else
constexpr uint64_t kComparedGraphs = 40;
#endif
constexpr RematLimits kLongSearch{.may_enumerate = false, .effort = Effort::best, .factor = 0.05};

// Calls visit(problem, budget, the exact answer in the same order, what the search finds).
template <class Visit>
void for_searched_graphs(bool has_variants, const Visit& visit) {
  for (uint64_t seed = 1; seed <= kComparedGraphs; ++seed) {
    Problem problem = tiny_graph(seed);
    if (problem.ops.size() > static_cast<size_t>(kMaxExactOps)) continue;
    if (has_variants) add_random_variants(seed, problem);
    validate(problem);
    const ProblemIndex index(problem);
    const int64_t top = analyse(problem, given_order(problem)).load_bytes;
    for (const int64_t tenths : {9, 8, 6, 5}) {
      const int64_t budget = top * tenths / 10;
      const ExactAnswer exact = cheapest_schedule(index, budget, /*may_reorder=*/false);
      ASSERT_TRUE(exact.is_complete);
      const RematResult found = solve_remat(problem, budget, kLongSearch);
      ASSERT_TRUE(check_schedule(problem, found.schedule).empty());
      EXPECT_EQ(found.fits, found.peak_bytes <= budget);
      EXPECT_TRUE(exact.schedule || !found.fits);
      if (exact.schedule) visit(problem, budget, analyse(problem, *exact.schedule).seconds, found);
    }
  }
}

TEST(Remat, Answers_are_valid_and_close_to_the_optimum_of_the_same_order) {
  int32_t cells = 0;
  int32_t optimal = 0;
  int32_t missed = 0;
  double worst = 0;
  for_searched_graphs(false, [&](const Problem&, int64_t, double best, const RematResult& found) {
    ++cells;
    if (!found.fits) {
      ++missed;
      return;
    }
    optimal += found.seconds <= best + 1e-9 ? 1 : 0;
    worst = std::max(worst, found.seconds / best - 1);
  });
  EXPECT_GE(cells, kComparedGraphs * 7 / 8);
  EXPECT_EQ(missed, 0) << "budgets that have a schedule";
  EXPECT_GE(optimal, cells * 95 / 100) << "of " << cells << ", worst " << worst;
  EXPECT_LE(worst, 0.05);
}

TEST(Remat, More_ways_to_run_are_near_the_optimum_and_make_nothing_worse) {
  int32_t cells = 0;
  int32_t optimal = 0;
  int32_t cheaper = 0;
  for_searched_graphs(
      true, [&](const Problem& problem, int64_t budget, double best, const RematResult& found) {
        Problem without = problem;
        without.variants.clear();
        const RematResult before = solve_remat(without, budget, kLongSearch);
        EXPECT_TRUE(found.fits || !before.fits);
        EXPECT_TRUE(!before.fits || found.seconds <= before.seconds);
        ++cells;
        if (!found.fits) return;
        optimal += found.seconds <= best + 1e-9 ? 1 : 0;
        cheaper += !before.fits || found.seconds < before.seconds ? 1 : 0;
      });
  EXPECT_GE(cells, kComparedGraphs * 7 / 8);
  EXPECT_GT(cheaper, cells / 10);
  EXPECT_GE(optimal, cells * 90 / 100) << "of " << cells;
}

TEST(Remat, More_budget_is_never_more_cost_where_ops_run_in_several_ways) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Problem problem = random_training_graph(seed, {.forward_ops = 20});
    add_random_variants(seed, problem);
    const int64_t top = analyse(problem, given_order(problem)).load_bytes;
    const int64_t bottom = pinned_set_bound(problem).bytes;
    RematSolver solver(problem, {});
    RematSolver threaded(problem, {.threads = 2});
    double before = std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i <= 12; ++i) {
      const int64_t budget = bottom + (top - bottom) * i / 12;
      const RematResult found = solver.at(budget);
      ASSERT_TRUE(check_schedule(problem, found.schedule).empty());
      EXPECT_EQ(threaded.at(budget).schedule, found.schedule);
      EXPECT_GE(found.peak_bytes, bottom);
      if (!found.fits) {
        EXPECT_TRUE(std::isinf(before)) << seed << " " << budget;
        continue;
      }
      EXPECT_LE(found.seconds, before) << seed << " " << budget;
      before = found.seconds;
    }
  }
}

TEST(Remat, Tiny_problems_are_solved_to_optimality_and_refused_with_the_smallest_peak) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Problem problem = tiny_graph(seed);
    if (problem.ops.size() > 8) continue;
    const int64_t smallest = testing::smallest_load(problem);
    const RematResult refused = solve_remat(problem, smallest - 1, {.may_reorder = true});
    EXPECT_FALSE(refused.fits);
    EXPECT_TRUE(refused.is_optimal);
    EXPECT_EQ(refused.peak_bytes, smallest);
    const RematResult found = solve_remat(problem, smallest, {.may_reorder = true});
    EXPECT_TRUE(found.fits);
    EXPECT_NEAR(found.seconds, *testing::fewest_seconds(problem, smallest), 1e-9);
  }
}

TEST(Remat, Is_deterministic_and_free_order_is_never_worse) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Problem problem = random_training_graph(seed, {.forward_ops = 25});
    const int64_t budget = analyse(problem, given_order(problem)).load_bytes * 7 / 10;
    const RematResult given = solve_remat(problem, budget, {.factor = 0.05});
    const RematResult again = solve_remat(problem, budget, {.factor = 0.05});
    EXPECT_EQ(given.schedule, again.schedule);
    const RematResult free =
        solve_remat(problem, budget, {.may_reorder = true, .effort = Effort::best, .factor = 0.05});
    ASSERT_TRUE(check_schedule(problem, free.schedule).empty());
    EXPECT_TRUE(free.fits || !given.fits);
    if (given.fits) {
      EXPECT_LE(free.seconds, given.seconds);
      EXPECT_GE(given.seconds, lower_bound_seconds(problem, budget) * (1 - 1e-9));
    }
    EXPECT_GE(free.peak_bytes, pinned_set_bound(problem).bytes);
  }
}

TEST(Remat, Is_the_same_on_any_number_of_threads) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    const Problem problem = random_training_graph(seed, {.forward_ops = 25});
    const int64_t top = analyse(problem, given_order(problem)).load_bytes;
    for (const Effort effort : {Effort::fast, Effort::standard, Effort::best}) {
      RematLimits limits;
      limits.may_reorder = true;
      limits.effort = effort;
      limits.factor = 0.005;
      RematSolver one(problem, limits);
      const std::vector<RematResult> curve = one.curve();
      for (const int threads : {2, 5}) {
        limits.threads = threads;
        RematSolver many(problem, limits);
        for (const int64_t tenths : {9, 7, 5, 3}) {
          const int64_t budget = top * tenths / 10;
          EXPECT_EQ(many.at(budget).schedule, one.at(budget).schedule) << threads << " " << tenths;
        }
        const std::vector<RematResult> same = many.curve();
        ASSERT_EQ(same.size(), curve.size());
        for (size_t i = 0; i < curve.size(); ++i) EXPECT_EQ(same[i].schedule, curve[i].schedule);
      }
    }
  }
}

// Nothing that begins elsewhere is near: what fits at once costs many times as much.
TEST(Remat, A_graph_without_structure_gets_down_by_small_steps) {
  const Problem problem = random_training_graph(3, {.forward_ops = 300});
  const Liveness all = analyse(problem, given_order(problem));
  const RematResult found = solve_remat(problem, all.load_bytes * 6 / 10, {});
  ASSERT_TRUE(found.fits);
  EXPECT_LT(found.seconds, 1.5 * all.seconds);
}

TEST(Remat, Orders_with_updates_see_the_same_versions) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Problem problem = random_training_graph(seed, {.forward_ops = 8, .has_updates = true});
    const ProblemIndex index(problem);
    const std::vector<OpId> order = lower_peak_order(index);
    const auto violations = check_schedule(problem, order);
    ASSERT_TRUE(violations.empty()) << violations.front();
    EXPECT_LE(analyse(problem, order).load_bytes,
              analyse(problem, given_order(problem)).load_bytes);
  }
}

// The standard effort begins with what tables and cuts know: it is near the long search, and no
// effort is worse than a smaller one.
TEST(Remat, More_effort_is_never_worse) {
  double standard = 0;
  double best = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Problem problem = random_training_graph(seed, {.forward_ops = 30});
    const int64_t budget = analyse(problem, given_order(problem)).load_bytes * 7 / 10;
    const auto found = [&](Effort effort, double factor) {
      const RematResult result = solve_remat(problem, budget, {.effort = effort, .factor = factor});
      EXPECT_TRUE(check_schedule(problem, result.schedule).empty());
      return result;
    };
    const RematResult fast = found(Effort::fast, 1);
    const RematResult middle = found(Effort::standard, 1);
    const RematResult longest = found(Effort::best, 0.1);
    EXPECT_TRUE(!fast.fits || middle.seconds <= fast.seconds) << seed;
    EXPECT_EQ(found(Effort::standard, 1).schedule, middle.schedule);
    EXPECT_EQ(middle.fits, longest.fits) << seed;
    standard += middle.seconds;
    best += longest.seconds;
  }
  EXPECT_LE(standard, best * 1.005);
}

TEST(Remat, A_chain_of_units_comes_from_the_table_at_once) {
  // 20 units in 9: 0.63 extra forwards.
  const Problem problem = testing::unit_chain(20);
  const RematResult found = solve_remat(problem, 9 * 64, {.effort = Effort::fast});
  ASSERT_TRUE(found.fits);
  double forward = 0;
  double once = 0;
  for (const Op& op : problem.ops) {
    if (op.phase == Phase::forward) forward += op.seconds;
    once += op.seconds;
  }
  EXPECT_LE((found.seconds - once) / forward, 0.6316);
}

TEST(Remat, Unit_chains_reach_deep_recomputation) {
  // 50 units: more than one extra forward is needed below about 2 * sqrt(50).
  const Problem problem = testing::unit_chain(50);
  const RematResult found = solve_remat(problem, 8 * 64, {.effort = Effort::best, .factor = 0.3});
  EXPECT_TRUE(found.fits);
  EXPECT_LE(found.peak_bytes, 8 * 64);
}

// x is written in place twice: x1 -> x2 -> x3, and each backward op reads one of them.
Problem in_place_chain() {
  Problem problem;
  problem.alignment = 1;
  const auto storage = [&](const char* name, int64_t bytes) {
    problem.storages.push_back({name, bytes, false});
    return problem.storages.end_id() - 1;
  };
  const StorageId x = storage("x", 100);
  const StorageId y = storage("y", 80);
  const StorageId z = storage("z", 120);
  const StorageId out = storage("out", 10);
  const auto op = [&](const char* name, std::vector<StorageId> inputs,
                      std::vector<StorageId> outputs, bool may_recompute) {
    Op made;
    made.name = name;
    made.seconds = 1;
    made.inputs = std::move(inputs);
    made.outputs = std::move(outputs);
    made.may_recompute = may_recompute;
    problem.ops.push_back(made);
  };
  op("make", {}, {x}, true);
  op("y=x", {x}, {y}, true);
  problem.ops.back().reuses = {{y, x}};
  op("z", {y}, {z}, true);
  op("out", {y, z}, {out}, false);
  problem.keep = {out};
  return problem;
}

TEST(Remat, An_output_in_the_place_of_an_input_counts_once_and_destroys_it) {
  const Problem problem = in_place_chain();
  validate(problem);
  const Liveness live = analyse(problem, given_order(problem));
  EXPECT_EQ(live.step_bytes, (std::vector<int64_t>{100, 100, 200, 210}));
  EXPECT_FALSE(check_schedule(problem, testing::ops({0, 1, 1, 2, 3})).empty());
  EXPECT_TRUE(check_schedule(problem, testing::ops({0, 1, 0, 1, 2, 3})).empty());
  EXPECT_EQ(working_set_bound(problem).bytes, 210);

  Problem late_reader = problem;
  late_reader.ops[OpId(2)].inputs.push_back(StorageId(0));
  EXPECT_THROW(validate(late_reader), std::exception);
  Problem kept = problem;
  kept.keep.push_back(StorageId(0));
  EXPECT_THROW(validate(kept), std::exception);
  Problem not_an_input = problem;
  not_an_input.ops[OpId(3)].reuses = {{StorageId(3), StorageId(0)}};
  EXPECT_THROW(validate(not_an_input), std::exception);
}

TEST(Remat, In_place_ops_are_planned_exactly) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Problem problem = random_training_graph(seed, {.forward_ops = 10});
    // Where the last reader of an input is a forward op, its output takes the place.
    const ProblemIndex before(problem);
    for (const StorageId id : before.storage_ids()) {
      const auto& readers = before.consumers[id];
      if (readers.empty() || before.producer[id] == kNone) continue;
      Op& op = problem.ops[readers.back()];
      const bool is_kept = before.in_keep[id];
      if (!is_kept && op.reuses.empty()) op.reuses = {{op.outputs.front(), id}};
    }
    validate(problem);
    const int64_t top = analyse(problem, given_order(problem)).load_bytes;
    for (const int64_t tenths : {9, 7, 5}) {
      const RematResult found =
          solve_remat(problem, top * tenths / 10,
                      {.may_reorder = true, .effort = Effort::best, .factor = 0.02});
      const auto violations = check_schedule(problem, found.schedule);
      ASSERT_TRUE(violations.empty()) << violations.front();
      EXPECT_EQ(analyse(problem, found.schedule).load_bytes, found.peak_bytes);
    }
  }
}

// Appends an op of one output.
void add_op(Problem& problem, const char* name, std::initializer_list<int32_t> inputs,
            int32_t output, bool may_recompute) {
  Op made;
  made.name = name;
  made.seconds = 1;
  made.inputs = testing::storages(inputs);
  made.outputs = {StorageId(output)};
  made.may_recompute = may_recompute;
  problem.ops.push_back(made);
}

TEST(Bound, Pinned_storages_count_beside_the_operands) {
  // "a" cannot be made again and is read after "mid": it is in memory while "mid" runs.
  Problem problem;
  problem.alignment = 1;
  for (const int64_t bytes : {100, 10, 20, 1}) problem.storages.push_back({"s", bytes, false});
  add_op(problem, "a", {}, 0, false);
  add_op(problem, "b", {0}, 1, false);
  add_op(problem, "mid", {1}, 2, false);
  add_op(problem, "end", {2, 0}, 3, false);
  EXPECT_EQ(working_set_bound(problem).bytes, 121);
  EXPECT_EQ(pinned_set_bound(problem).bytes, 130);
  EXPECT_EQ(pinned_set_bound(problem).op, OpId(2));
  EXPECT_EQ(pinned_set_bound(problem).proof, BoundProof::pinned);
}

TEST(Bound, What_is_made_of_a_draw_may_stand_for_it) {
  // "draw" runs once; "use" and "end" read the mask, which may be made of it again.
  Problem problem;
  problem.alignment = 1;
  for (const int64_t bytes : {100, 25, 10, 70, 1}) problem.storages.push_back({"s", bytes, false});
  add_op(problem, "draw", {}, 0, false);
  add_op(problem, "mask", {0}, 1, true);
  add_op(problem, "use", {1}, 2, true);
  add_op(problem, "large", {2}, 3, true);
  add_op(problem, "end", {3, 1}, 4, true);
  problem.ops[OpId(3)].scratch_bytes = 40;
  EXPECT_EQ(working_set_bound(problem).bytes, 125);
  const WorkingSetBound bound = pinned_set_bound(problem);
  EXPECT_EQ(bound.bytes, 145);
  EXPECT_EQ(bound.op, OpId(3));
  EXPECT_EQ(bound.proof, BoundProof::pinned);
  EXPECT_TRUE(solve_remat(problem, 145, {}).fits);
  // Where the draw is what is read later, it has to be there itself.
  problem.ops[OpId(4)].inputs = testing::storages({3, 0});
  EXPECT_EQ(pinned_set_bound(problem).bytes, 220);
}

TEST(Bound, Nothing_fits_below_it) {
  int64_t cut_by_draws = 0;
  for (uint64_t seed = 1; seed <= kComparedGraphs; ++seed) {
    Problem problem =
        random_training_graph(seed, {.forward_ops = 4 + static_cast<int32_t>(seed % 3)});
    if (problem.ops.size() > kMaxExactOps) continue;
    for (const OpId id : problem.ops.ids()) {
      Op& op = problem.ops[id];
      if ((seed + static_cast<uint64_t>(id.number())) % 3 == 0) op.may_recompute = false;
    }
    const ProblemIndex index(problem);
    for (const bool may_reorder : {false, true}) {
      const WorkingSetBound bound = pinned_set_bound(problem, !may_reorder);
      const ExactAnswer below = cheapest_schedule(index, bound.bytes - 1, may_reorder);
      ASSERT_TRUE(below.is_complete);
      EXPECT_FALSE(below.schedule) << seed << " " << may_reorder;
      cut_by_draws += bound.bytes > working_set_bound(problem).bytes ? 1 : 0;
    }
  }
  EXPECT_GT(cut_by_draws, 0);
}

TEST(Bound, What_is_kept_lies_beside_the_op_that_makes_the_last_of_it) {
  // Both gradients are kept, and either may come last: "dw2" needs least beside them.
  Problem problem;
  problem.alignment = 1;
  for (const int64_t bytes : {30, 20, 100, 100}) problem.storages.push_back({"s", bytes, false});
  add_op(problem, "x", {}, 0, true);
  add_op(problem, "y", {}, 1, true);
  add_op(problem, "dw1", {0}, 2, true);
  add_op(problem, "dw2", {1}, 3, true);
  problem.keep = testing::storages({2, 3});
  EXPECT_EQ(working_set_bound(problem).bytes, 130);
  const WorkingSetBound bound = pinned_set_bound(problem);
  EXPECT_EQ(bound.bytes, 220);
  EXPECT_EQ(bound.op, OpId(3));
  EXPECT_EQ(bound.proof, BoundProof::kept);
  const RematResult found = solve_remat(problem, 220, {.may_reorder = true});
  EXPECT_TRUE(found.fits) << found.peak_bytes;
}

TEST(Bound, Storages_of_other_branches_are_pinned_by_the_order) {
  // "a" cannot be made again and is read last; "mid" does not descend from it.
  Problem problem;
  problem.alignment = 1;
  for (const int64_t bytes : {100, 10, 20, 1}) problem.storages.push_back({"s", bytes, false});
  add_op(problem, "op", {}, 0, false);
  add_op(problem, "op", {}, 1, false);
  add_op(problem, "op", {1}, 2, false);
  add_op(problem, "op", {2, 0}, 3, false);
  const ProblemIndex index(problem);
  EXPECT_EQ(pinned_set_bound(problem).bytes, 121);
  const WorkingSetBound bound = pinned_order_bound(StageGraph(index, given_order(problem)));
  EXPECT_EQ(bound.bytes, 130);
  EXPECT_EQ(bound.op, OpId(2));
}

TEST(Bound, No_schedule_of_the_order_is_below_it) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const Problem problem =
        random_training_graph(seed, {.forward_ops = 14, .has_updates = seed % 2 == 0});
    const ProblemIndex index(problem);
    const StageGraph graph(index, given_order(problem));
    const int64_t bound = pinned_order_bound(graph).bytes;
    EXPECT_GE(bound, working_set_bound(problem).bytes);
    EXPECT_LE(bound, search_retention(index, graph, 1, {.factor = 0.01}).peak_bytes);
  }
}

}  // namespace
}  // namespace snug::plan
