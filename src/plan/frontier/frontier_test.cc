// SPDX-License-Identifier: Apache-2.0
// The planner as a whole: every plan of every frontier is valid, frontiers are monotone and
// deterministic, chains reach the known peaks, and nothing beats the certificates.
#include "plan/frontier/frontier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/frontier/poor_chain.h"
#include "plan/frontier/remat.h"
#include "plan/improve/bound.h"
#include "plan/problem/brute_force.h"
#include "plan/problem/liveness.h"
#include "plan/problem/test_problems.h"
#include "plan/problem/validate.h"
#include "snug/error.h"

namespace snug::plan {
namespace {

void expect_sound(const Problem& problem, const Frontier& frontier) {
  const std::vector<Plan> plans = frontier.plans();
  ASSERT_FALSE(plans.empty());
  for (size_t i = 0; i < plans.size(); ++i) {
    const Plan& plan = plans[i];
    const auto violations = check(problem, plan);
    ASSERT_TRUE(violations.empty()) << plan.strategy << ": " << violations.front();
    ASSERT_LE(plan.load_bytes, plan.arena_bytes);
    ASSERT_GE(plan.load_bytes, frontier.bound().bytes);
    ASSERT_GE(plan.seconds, lower_bound_seconds(problem, plan.arena_bytes) * (1 - 1e-9));
    if (i == 0) continue;
    ASSERT_GT(plan.arena_bytes, plans[i - 1].arena_bytes);
    ASSERT_LT(plan.seconds, plans[i - 1].seconds);
  }
  for (size_t i = 1; i < frontier.points().size(); ++i) {
    ASSERT_GE(frontier.points()[i].load_bytes, frontier.points()[i - 1].load_bytes);
    ASSERT_LT(frontier.points()[i].seconds, frontier.points()[i - 1].seconds);
  }
  ASSERT_EQ(plans.back().seconds, frontier.keep_all_seconds());
  ASSERT_LE(plans.back().arena_bytes, frontier.keep_all().arena_bytes);
}

TEST(Frontier, Every_plan_of_random_graphs_is_valid_and_the_frontier_is_monotone) {
  size_t recomputing = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    for (const bool has_updates : {false, true}) {
      const Problem problem = testing::random_training_graph(
          seed, {.forward_ops = 3 + static_cast<int32_t>(seed % 25), .has_updates = has_updates});
      const Frontier frontier = build_frontier(problem);
      SCOPED_TRACE(seed);
      ASSERT_NO_FATAL_FAILURE(expect_sound(problem, frontier));
      recomputing += frontier.plans().size() - 1;
    }
  }
  EXPECT_GT(recomputing, 500u);
}

TEST(PoorChain, Is_what_carries_much_past_many_blocks) {
  const auto is_poor = [](const Problem& problem) { return is_poor_chain(Workshop(problem)); };
  EXPECT_TRUE(is_poor(testing::u_net(3)));
  EXPECT_TRUE(is_poor(testing::u_net(5)));
  EXPECT_FALSE(is_poor(testing::encoder({})));
  EXPECT_FALSE(is_poor(testing::recurrent_net({.steps = 50})));
  EXPECT_FALSE(is_poor(testing::unit_chain(20)));
  EXPECT_FALSE(is_poor(testing::evaluation_chain(20)));  // has none
}

TEST(PoorChain, Gets_what_the_search_over_graphs_finds) {
  for (const int32_t levels : {3, 4, 5}) {
    const Problem problem = testing::u_net(levels);
    const Frontier frontier = build_frontier(problem);
    ASSERT_NO_FATAL_FAILURE(expect_sound(problem, frontier));
    RematSolver solver(problem, {.may_enumerate = false, .effort = Effort::fast});
    const RematResult smallest = solver.at(pinned_set_bound(problem).bytes);
    EXPECT_LE(static_cast<double>(frontier.points().front().load_bytes),
              1.02 * static_cast<double>(smallest.peak_bytes))
        << levels;
    const auto keep_all = static_cast<double>(frontier.points().back().load_bytes);
    for (const double share : {0.9, 0.8, 0.7}) {
      const auto budget = static_cast<int64_t>(share * keep_all);
      const RematResult found = solver.at(budget);
      if (!found.fits) continue;
      double seconds = std::numeric_limits<double>::infinity();
      for (const ScheduledPoint& each : frontier.points()) {
        if (each.load_bytes <= budget) seconds = std::min(seconds, each.seconds);
      }
      EXPECT_LE(seconds, 1.01 * found.seconds) << levels << " levels, " << share;
    }
  }
}

TEST(Frontier, What_is_kept_costs_its_price) {
  Problem chain = testing::unit_chain(5);
  const double once = analyse(chain, given_order(chain)).seconds;
  chain.kept_seconds_per_byte = 0.01;
  const Liveness live = analyse(chain, given_order(chain));
  EXPECT_EQ(live.kept_bytes, 4 * 64);  // the input is not read again
  EXPECT_DOUBLE_EQ(live.seconds, once + 0.01 * 4 * 64);

  // The bound counts it too, and the validator by its own replay.
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Problem problem = testing::random_training_graph(seed, {.forward_ops = 20});
    double seconds = 0;
    double bytes = 0;
    for (const Op& op : problem.ops) seconds += op.seconds;
    for (const Storage& storage : problem.storages) bytes += static_cast<double>(storage.bytes);
    problem.kept_seconds_per_byte = 0.2 * seconds / bytes;
    const Frontier frontier = build_frontier(problem);
    for (const Plan& plan : frontier.plans()) {
      const auto violations = check(problem, plan);
      ASSERT_TRUE(violations.empty()) << seed << ": " << violations.front();
      ASSERT_GE(plan.seconds, lower_bound_seconds(problem, plan.arena_bytes) * (1 - 1e-9));
    }
    Problem free = problem;
    free.kept_seconds_per_byte = 0;
    const int64_t budget = frontier.keep_all().arena_bytes;
    EXPECT_GT(lower_bound_seconds(problem, budget), lower_bound_seconds(free, budget)) << seed;
  }
}

// The search measures a schedule once and afterwards only sums its seconds, in another order and of
// other ops.
TEST(Frontier, Points_take_what_their_schedules_are_measured_to_take) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Problem problem =
        testing::random_training_graph(seed, {.forward_ops = 20, .has_updates = seed % 2 == 0});
    problem.kept_seconds_per_byte = 1e-9;
    for (Op& op : problem.ops) {  // by rows, but each with what it reads as a whole
      if (op.phase == Phase::update) continue;
      RowwiseOp& rows = op.rowwise.own();
      rows.form = {.grid = {.rows = 64},
                   .inputs = std::vector<int64_t>(op.inputs.size(), 0),
                   .outputs = std::vector<int64_t>(op.outputs.size(), 0)};
      rows.apart_seconds = 1.1 * op.seconds;
    }
    const Frontier frontier = build_frontier(problem);
    SCOPED_TRACE(seed);
    for (const ScheduledPoint& point : frontier.points()) {
      const ScheduledPoint again = measured(problem, point.schedule, point.strategy, point.fused);
      EXPECT_EQ(point.load_bytes, again.load_bytes);
      EXPECT_EQ(point.kept_bytes, again.kept_bytes);
      EXPECT_EQ(point.seconds, again.seconds);
      const Liveness live = analyse(problem, point.schedule, point.fused);
      EXPECT_EQ(live.step_bytes, loads_of(problem, point.schedule, point.fused).step_bytes);
      EXPECT_EQ(live.seconds, again.seconds);
    }
  }
}

TEST(Frontier, The_smallest_schedule_is_there_with_room_and_without) {
  size_t placed_both = 0;
  for (const int32_t levels : {3, 5, 7}) {
    const Problem problem = testing::u_net(levels);
    const Frontier frontier = build_frontier(problem);
    const ScheduledPoint& roomy = frontier.points()[0];
    const ScheduledPoint& filled = frontier.points()[1];
    EXPECT_LE(roomy.load_bytes, filled.load_bytes);
    EXPECT_GT(roomy.seconds, filled.seconds);
    const Plan smallest = frontier.smallest();
    EXPECT_LE(smallest.arena_bytes, frontier.plan(0).arena_bytes);
    EXPECT_LE(smallest.arena_bytes, frontier.plan(1).arena_bytes);
    // Where both can be placed, the faster one is the smallest plan.
    if (frontier.plan(1).arena_bytes != roomy.load_bytes) continue;
    EXPECT_EQ(smallest.seconds, filled.seconds);
    ++placed_both;
  }
  EXPECT_GT(placed_both, 0U);
}

TEST(Frontier, Encoder_plans_are_valid_small_and_cheap) {
  for (const bool accumulates : {true, false}) {
    for (const bool late : {false, true}) {
      if (accumulates && late) continue;
      const Problem problem =
          testing::encoder({.layers = 4, .accumulates = accumulates, .updates_at_end = late});
      const Frontier frontier = build_frontier(problem);
      ASSERT_NO_FATAL_FAILURE(expect_sound(problem, frontier));
      // Training plans are stack-like: placed without loss.
      for (const Plan& plan : frontier.plans())
        EXPECT_LE(plan.arena_bytes, plan.load_bytes * 102 / 100);
    }
  }
}

TEST(Frontier, Encoder_of_twelve_layers_meets_its_marks) {
  const Problem problem = testing::encoder({});
  const Frontier frontier = build_frontier(problem);
  const auto overhead_at = [&](double share) {
    const std::optional<Plan> plan = fastest_within(
        frontier,
        static_cast<int64_t>(share * static_cast<double>(frontier.keep_all().arena_bytes)));
    return !plan ? 1e9 : plan->seconds / frontier.keep_all_seconds() - 1;
  };
  EXPECT_EQ(overhead_at(1.0), 0.0);
  EXPECT_LE(overhead_at(0.70), 0.035);
  EXPECT_LE(overhead_at(0.50), 0.085);
  EXPECT_LE(overhead_at(0.30), 0.155);
  EXPECT_LE(overhead_at(0.15), 0.25);
  EXPECT_LE(frontier.smallest().arena_bytes, frontier.keep_all().arena_bytes * 8 / 100);
  // The certificate is close where most people train.
  for (const double share : {0.3, 0.5}) {
    const auto budget =
        static_cast<int64_t>(share * static_cast<double>(frontier.keep_all().arena_bytes));
    const std::optional<Plan> plan = fastest_within(frontier, budget);
    ASSERT_TRUE(plan);
    EXPECT_LE(plan->seconds - lower_bound_seconds(problem, budget),
              0.025 * frontier.keep_all_seconds());
  }
}

// The arena, as a share of keep-all's, of the smallest plan with at most this overhead.
double smallest_share(const Frontier& frontier, double overhead) {
  for (const Plan& plan : frontier.plans()) {
    if (plan.seconds <= frontier.keep_all_seconds() * (1 + overhead))
      return static_cast<double>(plan.arena_bytes) /
             static_cast<double>(frontier.keep_all().arena_bytes);
  }
  return 1;
}

TEST(Frontier, Recurrent_nets_are_cut_between_steps_though_h_and_c_cross) {
  for (const int32_t layers : {1, 2}) {
    const Problem problem = testing::recurrent_net({.steps = 60, .layers = layers});
    const Frontier frontier = build_frontier(problem, kQuickFrontier);
    ASSERT_NO_FATAL_FAILURE(expect_sound(problem, frontier));
    EXPECT_LE(smallest_share(frontier, 0.36), 0.18) << layers;
    EXPECT_LE(smallest_share(frontier, 0.80), 0.10) << layers;
  }
}

// A step of so many layers is one block of hundreds of values; pricing each of them whenever one is
// dropped took minutes.
TEST(Frontier, Deep_recurrent_nets_of_few_steps_are_planned) {
  const Problem problem =
      testing::recurrent_net({.steps = 4, .layers = 40, .rows = 32, .hidden = 32});
  const Frontier frontier = build_frontier(problem, kQuickFrontier);
  ASSERT_NO_FATAL_FAILURE(expect_sound(problem, frontier));
  EXPECT_LE(smallest_share(frontier, 0.40), 0.8);
}

TEST(Frontier, U_net_plans_are_valid_and_save) {
  const Problem problem = testing::u_net(4);
  const Frontier frontier = build_frontier(problem);
  ASSERT_NO_FATAL_FAILURE(expect_sound(problem, frontier));
  EXPECT_LE(smallest_share(frontier, 0.33), 0.60);
}

TEST(Frontier, Is_the_same_when_built_twice) {
  for (const Problem& problem :
       {testing::encoder({.layers = 3, .accumulates = false}),
        testing::random_training_graph(7, {.forward_ops = 30, .has_updates = true})}) {
    const Frontier first = build_frontier(problem);
    const Frontier second = build_frontier(problem);
    ASSERT_EQ(first.points().size(), second.points().size());
    // The order in which plans are asked for does not matter.
    for (size_t i = second.points().size(); i-- > 0;) (void)second.plan(i);
    for (size_t i = 0; i < first.points().size(); ++i) EXPECT_EQ(first.plan(i), second.plan(i));
  }
}

TEST(Frontier, More_memory_is_never_slower) {
  const Problem problem = testing::encoder({.layers = 3});
  const Frontier frontier = build_frontier(problem);
  double before = 1e300;
  for (int32_t i = 0; i <= 200; ++i) {
    const int64_t budget = frontier.keep_all().arena_bytes * i / 190;
    const std::optional<Plan> plan = fastest_within(frontier, budget);
    if (!plan) {
      EXPECT_LT(budget, frontier.smallest().arena_bytes);
      continue;
    }
    EXPECT_LE(plan->arena_bytes, budget);
    EXPECT_LE(plan->seconds, before);
    before = plan->seconds;
  }
  EXPECT_EQ(before, frontier.keep_all_seconds());
}

TEST(Frontier, Tiny_chains_reach_the_smallest_peak_there_is) {
  for (int32_t n = 2; n <= 6; ++n) {
    for (const Problem& problem : {testing::unit_chain(n), testing::input_chain(n)}) {
      const Frontier frontier = build_frontier(problem);
      EXPECT_EQ(frontier.smallest().load_bytes, testing::smallest_load(problem)) << n;
    }
  }
}

TEST(Frontier, Tiny_chains_are_as_fast_as_any_schedule_at_every_budget) {
  for (int32_t n = 2; n <= 6; ++n) {
    const Problem problem = testing::unit_chain(n);
    const Frontier frontier = build_frontier(problem);
    for (int64_t budget = frontier.smallest().arena_bytes;
         budget <= frontier.keep_all().arena_bytes; budget += 64) {
      const auto optimum = testing::fewest_seconds(problem, budget);
      ASSERT_TRUE(optimum.has_value());
      EXPECT_EQ(fastest_within(frontier, budget)->seconds, *optimum)
          << n << " units, budget " << budget / 64;
    }
  }
}

TEST(Frontier, Lower_bound_is_never_above_the_true_optimum) {
  int32_t informative = 0;
  const auto expect_below = [&](const Problem& problem) {
    const Frontier frontier = build_frontier(problem);
    for (int64_t budget = frontier.bound().bytes; budget <= frontier.keep_all().arena_bytes;
         budget += 64) {
      const auto optimum = testing::fewest_seconds(problem, budget);
      const double bound = lower_bound_seconds(problem, budget);
      if (optimum) {
        ASSERT_LE(bound, *optimum + 1e-9) << "budget " << budget;
        const std::optional<Plan> plan = fastest_within(frontier, budget);
        if (plan) {
          ASSERT_GE(plan->seconds, *optimum - 1e-9);
        }
      }
      if (bound > frontier.keep_all_seconds() + 1e-9) ++informative;
    }
  };
  for (int32_t n = 3; n <= 5; ++n) ASSERT_NO_FATAL_FAILURE(expect_below(testing::unit_chain(n)));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Problem problem = testing::random_training_graph(seed, {.forward_ops = 4, .max_inputs = 2});
    // The resident weights are not needed here and would widen the search's states.
    ASSERT_NO_FATAL_FAILURE(expect_below(problem)) << seed;
  }
  EXPECT_GT(informative, 10);
}

TEST(Frontier, Lower_bound_looks_past_constants_of_the_backward_part) {
  Problem problem = testing::encoder({.layers = 24});
  const auto first = std::find_if(problem.ops.begin(), problem.ops.end(),
                                  [](const Op& op) { return op.phase == Phase::backward; });
  ASSERT_NE(first, problem.ops.end());
  problem.storages.push_back({"one", 64});
  Op one;
  one.name = "one";
  one.phase = Phase::backward;
  one.may_recompute = false;
  one.outputs = {problem.storages.end_id() - 1};
  first->inputs.push_back(one.outputs.front());
  problem.ops.insert(first, one);
  const Frontier frontier = build_frontier(problem);
  for (const int64_t percent : {50, 30}) {
    const int64_t budget = frontier.keep_all().arena_bytes * percent / 100;
    const double found = fastest_within(frontier, budget)->seconds / frontier.keep_all_seconds();
    const double bound = lower_bound_seconds(problem, budget) / frontier.keep_all_seconds();
    EXPECT_GT(bound, 1.01) << percent;
    EXPECT_LT(found - bound, 0.02) << percent;
  }
}

TEST(Bound, Beyond_what_lives_together_no_schedule_is_smaller) {
  const Problem late =
      testing::encoder({.layers = 3, .tokens = 128, .accumulates = false, .updates_at_end = true});
  std::vector<StorageId> gradients;
  int64_t bytes = 0;
  for (const Op& op : late.ops) {
    if (op.phase != Phase::update) continue;
    for (const StorageId input : op.inputs) {
      const auto& storage = late.storages[input];
      if (storage.resident) continue;
      gradients.push_back(input);
      bytes += storage.bytes;
    }
  }
  ASSERT_FALSE(gradients.empty());
  const WorkingSetBound bound = working_set_bound_beyond(late, gradients);
  EXPECT_GT(bound.bytes, 0);
  EXPECT_LE(bound.bytes, analyse(late, given_order(late)).load_bytes - bytes);
  EXPECT_EQ(working_set_bound_beyond(late, {}).bytes, working_set_bound(late).bytes);
}

TEST(Frontier, A_recomputation_never_reads_an_updated_weight) {
  const Problem problem = testing::stale_weight_hazard();
  const Frontier frontier = build_frontier(problem);
  ASSERT_NO_FATAL_FAILURE(expect_sound(problem, frontier));
  for (const char* name : {"recompute-all", "sqrt", "every:2"}) {
    EXPECT_TRUE(check(problem, plan_strategy(problem, name)).empty()) << name;
  }
}

TEST(Frontier, Evaluation_and_update_only_problems_have_plans) {
  const Problem evaluation = testing::evaluation_chain(30);
  Frontier frontier = build_frontier(evaluation);
  ASSERT_NO_FATAL_FAILURE(expect_sound(evaluation, frontier));
  EXPECT_EQ(frontier.plans().back().arena_bytes, 128);
  const Problem update = testing::update_only(5);
  frontier = build_frontier(update);
  ASSERT_NO_FATAL_FAILURE(expect_sound(update, frontier));
  EXPECT_EQ(frontier.keep_all().arena_bytes, 128);  // the scratch
  const Problem nothing;
  EXPECT_EQ(build_frontier(nothing).plans().size(), 1u);
}

TEST(Strategies, Named_ones_are_valid_and_ordered_in_memory) {
  const Problem problem = testing::encoder({.layers = 6});
  const Plan keep = plan_strategy(problem, "keep-all");
  const Plan all = plan_strategy(problem, "recompute-all");
  const Plan root = plan_strategy(problem, "sqrt");
  const Plan two = plan_strategy(problem, "every:2");
  for (const Plan* plan : {&keep, &all, &root, &two}) {
    EXPECT_TRUE(check(problem, *plan).empty()) << plan->strategy;
  }
  EXPECT_EQ(keep.steps.size(), problem.ops.size());
  EXPECT_LT(all.arena_bytes, keep.arena_bytes / 2);
  EXPECT_GT(all.seconds, keep.seconds);
  EXPECT_LT(root.arena_bytes, keep.arena_bytes);
  EXPECT_EQ(plan_strategy(problem, "every:1").steps, all.steps);
  EXPECT_EQ(plan_strategy(problem, "every:1000").seconds, keep.seconds);
  // Never more than one extra forward.
  double forward = 0;
  for (const Op& op : problem.ops) forward += op.phase == Phase::forward ? op.seconds : 0;
  for (const Plan* plan : {&all, &root, &two})
    EXPECT_LE(plan->seconds, keep.seconds + forward) << plan->strategy;
}

TEST(Strategies, Unknown_names_are_refused) {
  const Problem problem = testing::unit_chain(5);
  for (const char* name : {"", "magic", "every:", "every:0", "every:-2", "every:2x"}) {
    try {
      (void)plan_strategy(problem, name);
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_config);
      EXPECT_NE(std::string(error.what()).find("'" + std::string(name) + "' is not a strategy"),
                std::string::npos);
    }
  }
}

TEST(Frontier, A_search_tells_its_share_many_times) {
  const Problem problem = testing::encoder({.layers = 12});
  std::vector<double> shares;
  std::vector<std::string> phases;
  (void)build_frontier(problem, kQuickFrontier, [&](double share, const char* phase) {
    shares.push_back(share);
    if (phases.empty() || phases.back() != phase) phases.emplace_back(phase);
  });
  EXPECT_EQ(phases, (std::vector<std::string>{"blocks", "chain", "refining"}));
  EXPECT_GE(shares.size(), 10u);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_EQ(shares.front(), 0.0);
  EXPECT_GT(shares.back(), 0.7);
  EXPECT_LE(shares.back(), 1.0);
}

TEST(Refusal, Names_the_op_and_tells_proof_from_failure) {
  const Problem problem = testing::encoder({.layers = 2});
  const Frontier frontier = build_frontier(problem);
  const Refusal proved = refuse(problem, frontier, frontier.bound().bytes - 1);
  EXPECT_TRUE(proved.is_proved);
  EXPECT_EQ(proved.op_name, problem.ops[frontier.bound().op].name);
  int64_t sum = 0;
  for (const auto& operand : proved.operands) sum += operand.bytes;
  EXPECT_EQ(sum, frontier.bound().bytes);
  EXPECT_TRUE(std::is_sorted(proved.operands.begin(), proved.operands.end(),
                             [](const auto& a, const auto& b) { return a.bytes > b.bytes; }));
  const int64_t smallest = frontier.smallest().arena_bytes;
  const Refusal open = refuse(problem, frontier, smallest - 1);
  EXPECT_FALSE(open.is_proved);
  EXPECT_EQ(open.smallest_arena_bytes, smallest);
  EXPECT_EQ(open.gap_bytes, smallest - frontier.bound().bytes);
  EXPECT_FALSE(fastest_within(frontier, smallest - 1));
  EXPECT_TRUE(fastest_within(frontier, smallest));
  EXPECT_TRUE(std::isinf(lower_bound_seconds(problem, 0)));
}

}  // namespace
}  // namespace snug::plan
