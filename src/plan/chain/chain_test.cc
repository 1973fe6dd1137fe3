// SPDX-License-Identifier: Apache-2.0
// The parts of the chain: liveness, blocks, options, dynamic programming, flattening, slack.
#include "plan/chain/chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "plan/chain/schedule.h"
#include "plan/chain/strategies.h"
#include "plan/improve/lower_peak.h"
#include "plan/improve/slack.h"
#include "plan/problem/liveness.h"
#include "plan/problem/order.h"
#include "plan/problem/test_problems.h"
#include "plan/problem/validate.h"

namespace snug::plan {
namespace {

TEST(Liveness, Instances_live_from_making_to_last_use_before_made_again) {
  Problem problem;
  problem.storages = {{"x", 64, false}, {"y", 128, false}, {"z", 192, false}, {"w", 64, true}};
  problem.ops = {{.name = "x", .scope = "", .seconds = 1, .inputs = {}, .outputs = {StorageId(0)}},
                 {.name = "y",
                  .scope = "",
                  .seconds = 2,
                  .inputs = {StorageId(0), StorageId(3)},
                  .outputs = {StorageId(1)},
                  .scratch_bytes = 64},
                 {.name = "z",
                  .scope = "",
                  .seconds = 4,
                  .inputs = {StorageId(0), StorageId(1)},
                  .outputs = {StorageId(2)}}};
  problem.keep = {StorageId(2)};
  const std::vector<OpId> schedule = testing::ops({0, 1, 0, 1, 2});
  const Liveness live = analyse(problem, schedule);
  const std::vector<LiveRange> expected = {
      {StorageId(0), 0, 1, 64, kNone}, {StorageId(1), 1, 1, 128, kNone}, {kNone, 1, 1, 64, OpId(1)},
      {StorageId(0), 2, 4, 64, kNone}, {StorageId(1), 3, 4, 128, kNone}, {kNone, 3, 3, 64, OpId(1)},
      {StorageId(2), 4, 4, 192, kNone}};
  EXPECT_EQ(live.ranges, expected);
  EXPECT_EQ(live.step_bytes, (std::vector<int64_t>{64, 256, 64, 256, 384}));
  EXPECT_EQ(live.load_bytes, 384);
  EXPECT_EQ(live.peak_step, 4);
  EXPECT_EQ(live.seconds, 10);
}

TEST(Blocks, An_encoder_is_cut_twice_a_layer_and_its_mask_is_carried) {
  const Problem problem = testing::encoder({});
  const ProblemIndex index(problem);
  const Chain chain = find_blocks(index);
  EXPECT_GE(chain.blocks.size(), 24u);
  EXPECT_LE(chain.blocks.size(), 27u);
  EXPECT_LE(chain.class_count, 6);
  for (const StorageId id : index.storage_ids()) {
    EXPECT_TRUE(index.storage(id).name != "embeddings/mask" || chain.is_pinned[id]);
  }
  // Blocks tile the forward part and, in reverse, the backward part.
  OpId next{0};
  for (const Block& block : chain.blocks) {
    EXPECT_EQ(block.first, next);
    next = block.end;
  }
  EXPECT_EQ(next, index.backward_begin);
  for (auto block = chain.blocks.rbegin(); block != chain.blocks.rend(); ++block) {
    EXPECT_EQ(block->backward_first, next);
    next = block->backward_end;
  }
  EXPECT_EQ(next, index.end_op());
}

TEST(Blocks, Too_many_blocks_are_merged) {
  const Problem problem = testing::unit_chain(500);
  const ProblemIndex index(problem);
  EXPECT_EQ(find_blocks(index, {.max_blocks = 1000}).blocks.size(), 500u);
  EXPECT_LE(find_blocks(index, {.max_blocks = 100}).blocks.size(), 100u);
}

TEST(Options, Keep_all_comes_first_and_the_front_is_a_front) {
  const Problem problem = testing::encoder({.layers = 2});
  const ProblemIndex index(problem);
  const Chain chain = find_blocks(index);
  const auto options = block_options(index, chain);
  ASSERT_EQ(options.size(), chain.blocks.size());
  for (size_t b = 0; b < options.size(); ++b) {
    const auto& list = options[b].options;
    ASSERT_FALSE(list.empty());
    EXPECT_EQ(list.front().recompute_seconds, 0);
    for (size_t i = 1; i < list.size(); ++i) {
      EXPECT_LE(list[i].saved_bytes, list[i - 1].saved_bytes);
      EXPECT_LE(list[i].recompute_seconds, options[b].forward_seconds + 1e-12);
    }
    int64_t saved = 0;
    for (const StorageId id : list.front().saved) saved += problem.storages[id].bytes;
    EXPECT_EQ(saved, list.front().saved_bytes);
  }
  // A layer's half has intermediate save-sets, not only all or nothing.
  EXPECT_GE(std::max_element(options.begin(), options.end(),
                             [](const BlockOptions& a, const BlockOptions& b) {
                               return a.options.size() < b.options.size();
                             })
                ->options.size(),
            4u);
}

TEST(Chain, Homogeneous_chains_cost_what_revolve_proves) {
  // l steps, c further checkpoints beside the input: r*l - C(c+r, r-1) forward steps at best.
  const auto binomial = [](int64_t n, int64_t k) {
    double value = 1;
    for (int64_t i = 1; i <= k; ++i)
      value = value * static_cast<double>(n - k + i) / static_cast<double>(i);
    return value;
  };
  const int64_t length = 30;
  IndexVector<Block> blocks(static_cast<size_t>(length));
  IndexVector<BlockOptions> options(static_cast<size_t>(length));
  for (auto& each : options) {
    // Backward needs the input alone and runs in no extra memory; forward moves one unit to the
    // next.
    each.forward_seconds = 1;
    each.input_bytes = 1;
    each.advance_peak_bytes = 1;
    each.options = {{.saved = {StorageId(0)},
                     .saved_bytes = 1,
                     .saves_input = true,
                     .forward_peak_bytes = 1,
                     .backward_peak_bytes = 0}};
  }
  const ChainSolver solver(blocks, options);
  const auto budgets = solver.distinct_budgets();
  ASSERT_FALSE(budgets.empty());
  // Two slots: start over each time.
  EXPECT_EQ(solver.seconds(budgets.front()), length * (length + 1) / 2.0 - 1);
  for (size_t i = 0; i < budgets.size(); ++i) {
    // The closed form counts advances alone; here every last run of a step before its backward
    // counts as well, unless the step was checkpointed just then.
    const auto c = static_cast<int64_t>(i) + 1;
    int64_t r = 0;
    while (binomial(c + r, c) < static_cast<double>(length)) ++r;
    const double advances = static_cast<double>(r * length) - (r == 0 ? 0 : binomial(c + r, r - 1));
    EXPECT_LE(solver.seconds(budgets[i]), advances + static_cast<double>(length)) << c;
    EXPECT_GE(solver.seconds(budgets[i]), advances + 1) << c;
  }
  EXPECT_EQ(solver.seconds(budgets.back()), length);
}

TEST(Chain, Gradients_that_gather_along_equal_blocks_do_not_multiply_the_table) {
  const size_t length = 1000;
  IndexVector<Block> blocks(length);
  IndexVector<BlockOptions> options(length);
  for (size_t i = 0; i < length; ++i) {
    BlockOptions& each = options[i];
    each.forward_seconds = 1;
    each.input_bytes = 100'003;
    each.advance_peak_bytes = 200'006;
    each.entry_bytes = 1000 * static_cast<int64_t>(length - i);
    each.options = {{.saved = {StorageId(0)},
                     .saved_bytes = 300'007,
                     .saves_input = true,
                     .inner_bytes = 200'004,
                     .forward_peak_bytes = 300'007,
                     .backward_peak_bytes = 100'003}};
  }
  for (const double share : {1.0, 0.125, 1.0 / 64}) {
    const ChainSolver solver(blocks, options, share);
    EXPECT_GT(solver.work(), 0) << share;
    EXPECT_LE(solver.work(), kMaxTableWork) << share;
  }
}

// Sizes with a large common divisor have an exact table, however many kinds of blocks there are.
TEST(Chain, A_table_of_many_kinds_of_blocks_has_a_limit_in_bytes) {
  const size_t length = 64;
  IndexVector<Block> blocks(length);
  IndexVector<BlockOptions> options(length);
  for (size_t i = 0; i < length; ++i) {
    const auto step = static_cast<int64_t>(i);
    options[i].forward_seconds = 1;
    options[i].input_bytes = 4096;
    options[i].advance_peak_bytes = 64 * step;
    options[i].options = {{.saved = {StorageId(0)},
                           .saved_bytes = 4096 + 64 * step,
                           .saves_input = true,
                           .inner_bytes = 64 * step,
                           .forward_peak_bytes = 4096 + 64 * step,
                           .backward_peak_bytes = 64}};
  }
  const ChainSolver solver(blocks, options);
  EXPECT_FALSE(solver.distinct_budgets().empty());
  EXPECT_GT(solver.bytes(), 1'000'000);
  EXPECT_LE(solver.bytes(), 26'000'000);
}

TEST(Schedule, Flattened_actions_are_valid_at_every_nominal_budget) {
  const Problem problem = testing::encoder({.layers = 3, .accumulates = false});
  const ProblemIndex index(problem);
  const Chain chain = find_blocks(index);
  const auto options = block_options(index, chain);
  const ChainSolver solver(chain.blocks, options);
  double before = 1e300;
  for (const int32_t budget : solver.distinct_budgets()) {
    const auto schedule = flatten(index, chain, solver.actions(budget));
    ASSERT_TRUE(schedule.has_value());
    const auto violations = check_schedule(problem, *schedule);
    ASSERT_TRUE(violations.empty()) << violations.front();
    EXPECT_LT(solver.seconds(budget), before);
    before = solver.seconds(budget);
  }
}

TEST(Schedule, An_update_waits_for_all_it_reads_also_through_other_updates) {
  // Gradients in the order g0, g1; their squares in the other order; the norm reads both.
  Problem problem;
  for (const char* name : {"x", "g0", "g1", "s1", "s0", "norm"})
    problem.storages.push_back({name, 64});
  problem.storages.push_back({"w", 64, true});
  const auto op = [&](const char* name, Phase phase, std::initializer_list<int32_t> inputs,
                      std::initializer_list<int32_t> outputs) {
    Op made;
    made.name = name;
    made.phase = phase;
    made.inputs = testing::storages(inputs);
    made.outputs = testing::storages(outputs);
    made.may_recompute = phase == Phase::forward;
    problem.ops.push_back(made);
  };
  op("f", Phase::forward, {6}, {0});
  op("b0", Phase::backward, {0}, {1});
  op("b1", Phase::backward, {0}, {2});
  op("square1", Phase::update, {2}, {3});
  op("square0", Phase::update, {1}, {4});
  op("norm", Phase::update, {3, 4}, {5});
  op("step", Phase::update, {1, 5}, {6});
  const OrderedProblem ordered = with_prompt_updates(problem);
  EXPECT_TRUE(check_schedule(problem, ordered.original).empty());
  EXPECT_EQ(ordered.original, testing::ops({0, 1, 4, 2, 3, 5, 6}));
}

TEST(Schedule, Updates_move_behind_their_gradient_and_stay_valid) {
  const Problem late =
      testing::encoder({.layers = 3, .tokens = 128, .accumulates = false, .updates_at_end = true});
  const OrderedProblem early = with_prompt_updates(late);
  EXPECT_NE(early.original, given_order(late));
  const auto violations = check_schedule(late, early.original);
  EXPECT_TRUE(violations.empty()) << violations.front();
  EXPECT_LT(analyse(late, early.original).load_bytes, analyse(late, given_order(late)).load_bytes);
  EXPECT_EQ(analyse(early.problem, given_order(early.problem)).load_bytes,
            analyse(late, early.original).load_bytes);
  EXPECT_EQ(in_original_ids(early, given_order(late)), early.original);
  // Where updates already follow their gradients nothing moves.
  const Problem prompt = testing::encoder({.layers = 3, .accumulates = false});
  EXPECT_EQ(prompt_update_order(prompt), given_order(prompt));
}

TEST(Slack, Useless_repeats_go_and_the_limit_holds) {
  const Problem problem = testing::unit_chain(12);
  const ProblemIndex index(problem);
  const Chain chain = find_blocks(index);
  const auto options = block_options(index, chain);
  const auto schedule =
      flatten(index, chain, strategy_actions(index, chain, options, "every:3").front());
  ASSERT_TRUE(schedule.has_value());
  ASSERT_GT(schedule->size(), problem.ops.size());
  const Liveness before = analyse(problem, *schedule);
  const int64_t keep_all = analyse(problem, given_order(problem)).load_bytes;
  double seconds = before.seconds;
  for (int64_t limit = before.load_bytes; limit <= keep_all; limit += 64) {
    const std::vector<OpId> filled = fill_slack(index, *schedule, before, limit);
    EXPECT_TRUE(check_schedule(problem, filled).empty());
    const Liveness live = analyse(problem, filled);
    EXPECT_LE(live.load_bytes, limit);
    EXPECT_LE(live.seconds, seconds);
    seconds = live.seconds;
  }
  EXPECT_EQ(fill_slack(index, *schedule, before, keep_all).size(), problem.ops.size());
}

TEST(LowerPeak, Each_step_has_a_smaller_load_and_is_valid) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Problem problem =
        testing::random_training_graph(seed, {.forward_ops = 25, .has_updates = true});
    const ProblemIndex index(problem);
    int64_t before = analyse(problem, given_order(problem)).load_bytes;
    for (const auto& schedule : lower_peak(index, given_order(problem), {})) {
      ASSERT_TRUE(check_schedule(problem, schedule).empty()) << seed;
      const int64_t load = analyse(problem, schedule).load_bytes;
      ASSERT_LT(load, before) << seed;
      before = load;
    }
  }
}

}  // namespace
}  // namespace snug::plan
