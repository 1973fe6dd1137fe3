// SPDX-License-Identifier: Apache-2.0
// What is written is read as the same problem: schedules have the same peak and cost there.
#include "solve/remat_write.h"

#include <gtest/gtest.h>

#include <fstream>

#include "io/json_file.h"
#include "io/test_folder.h"
#include "plan/problem/liveness.h"
#include "plan/problem/test_problems.h"
#include "solve/remat_check.h"
#include "solve/remat_file.h"

namespace snug::solve {
namespace {

// Forward ops of the problem's own order, run again right before the backward part.
std::vector<plan::OpId> repeating_schedule(const plan::Problem& problem) {
  std::vector<plan::OpId> schedule, again;
  for (const plan::OpId id : plan::given_order(problem)) {
    const plan::Op& op = problem.ops[plan::OpId(id)];
    if (op.phase != Phase::forward && !again.empty()) {
      schedule.insert(schedule.end(), again.begin(), again.end());
      again.clear();
    }
    schedule.push_back(id);
    if (op.may_recompute && again.size() < 5) again.push_back(id);
  }
  return schedule;
}

void expect_equal_judgement(const plan::Problem& problem, const std::vector<plan::OpId>& schedule) {
  const io::TestFolder folder;
  std::ofstream(folder / "schedule.json") << remat_schedule_json(problem, schedule);
  const plan::Problem read = parse_remat_problem(remat_problem_json(problem), "problem.json");
  ASSERT_EQ(read.ops.size(), problem.ops.size());
  ASSERT_EQ(read.storages.size(), problem.storages.size());
  const RematCheck check = replay(read, load_remat_schedule(folder / "schedule.json"));
  EXPECT_TRUE(check.violations.empty()) << check.violations.front();
  const plan::Liveness live = plan::analyse(problem, schedule);
  EXPECT_EQ(check.peak_bytes, live.load_bytes);
  const io::JsonValue written = io::load_json(folder / "schedule.json");
  EXPECT_EQ(written.get_int("peak_bytes"), live.load_bytes);
  EXPECT_EQ(written.get_int("kept_bytes"), live.kept_bytes);
  EXPECT_EQ(written.get_double("cost"), check.cost);
  EXPECT_EQ(written.get_double("cost") + written.get_double("kept_cost"), live.seconds);
}

TEST(RematWrite, a_schedule_has_the_same_peak_and_cost_in_the_files) {
  plan::Problem encoder = plan::testing::encoder({.layers = 3, .tokens = 64, .hidden = 32});
  encoder.kept_seconds_per_byte = 1e-9;
  std::vector<plan::Problem> problems = {encoder, plan::testing::u_net(3),
                                         plan::testing::recurrent_net({.steps = 6, .layers = 2}),
                                         plan::testing::update_only(4)};
  for (uint64_t seed = 0; seed < 20; ++seed)
    problems.push_back(plan::testing::random_training_graph(seed, {.has_updates = seed % 2 == 0}));
  for (const plan::Problem& problem : problems) {
    expect_equal_judgement(problem, plan::given_order(problem));
    if (!problem.ops.front().outputs.empty() && problem.ops.size() > 6)
      expect_equal_judgement(problem, repeating_schedule(problem));
  }
}

// Names that repeat, an output in its input's place, a resident one that is written, scratch.
TEST(RematWrite, every_part_of_a_problem_is_there) {
  plan::Problem problem;
  problem.storages = {{"w", 64, true}, {"a", 64}, {"a", 128}, {"a#2", 64}};
  plan::Op make{
      .name = "f", .scope = "layer", .seconds = 0.1, .inputs = {}, .outputs = {plan::StorageId(1)}};
  plan::Op widen = make, shrink = make, update = make;
  widen.inputs = {plan::StorageId(0), plan::StorageId(1)};
  widen.outputs = {plan::StorageId(2)};
  widen.scratch_bytes = 192;
  shrink.scope = update.scope = "";
  shrink.phase = Phase::backward;
  shrink.may_recompute = update.may_recompute = false;
  shrink.inputs = {plan::StorageId(1), plan::StorageId(2)};
  shrink.outputs = {plan::StorageId(3)};
  shrink.reuses = {{plan::StorageId(3), plan::StorageId(1)}};
  update.name = "u";
  update.phase = Phase::update;
  update.inputs = {plan::StorageId(0), plan::StorageId(3)};
  update.outputs = {plan::StorageId(0)};
  problem.ops = {make, widen, shrink, update};
  problem.keep = {plan::StorageId(2), plan::StorageId(0)};
  const plan::Problem read = parse_remat_problem(remat_problem_json(problem), "problem.json");
  std::vector<std::string> storages;
  IdVector<plan::OpId, std::string> ops;
  for (const plan::Storage& storage : read.storages) storages.push_back(storage.name);
  for (const plan::Op& op : read.ops) ops.push_back(op.name);
  EXPECT_EQ(storages, (std::vector<std::string>{"w", "a", "a#2", "a#2#2"}));
  EXPECT_EQ(ops, (std::vector<std::string>{"layer/f", "layer/f#2", "f", "u"}));
  for (const plan::OpId id : read.ops.ids()) {
    plan::Op wanted = problem.ops[id];
    wanted.name = ops[id];
    wanted.scope = {};
    EXPECT_EQ(read.ops[id], wanted) << ops[id];
  }
  EXPECT_EQ(read.keep, problem.keep);
  EXPECT_TRUE(read.storages[plan::StorageId(0)].resident);
  expect_equal_judgement(problem, plan::given_order(problem));
}

}  // namespace
}  // namespace snug::solve
