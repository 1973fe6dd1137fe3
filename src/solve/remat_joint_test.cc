// SPDX-License-Identifier: Apache-2.0
// Views, ordered ops, ops of one part and the boundary: the solver against exhaustive search over
// what they mean, and the independent check against both.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <random>

#include "io/test_folder.h"
#include "plan/problem/plain_problem.h"
#include "snug/solve_remat.h"
#include "solve/joint_brute_force.h"
#include "solve/random_joint.h"
#include "solve/remat_check.h"
#include "solve/remat_file.h"
#include "solve/remat_write.h"

namespace snug::solve {
namespace {

using plan::OpId;
using plan::Problem;
using testing::JointShape;
using testing::least_cost;
using testing::random_joint_graph;

std::string write(const io::TestFolder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder / name) << text;
  return folder / name;
}

std::vector<OpId> ids_of(const Problem& problem, const std::vector<std::string>& names) {
  std::vector<OpId> ids;
  for (const std::string& name : names) {
    for (const OpId id : IdRange(OpId(0), OpId(problem.run_count()))) {
      if (problem.run(id).name == name) ids.push_back(id);
    }
  }
  return ids;
}

// The check finds in a report's schedule what the report says of it.
void expect_report_is_true(const Problem& problem, const RematReport& report) {
  const std::optional<RematParts>& parts = report.parts;
  ASSERT_EQ(parts.has_value(), problem.boundary.has_value());
  ScheduleFile schedule{report.schedule};
  if (parts) schedule.boundary_step = parts->boundary_step;
  const RematCheck check = replay(problem, schedule);
  ASSERT_TRUE(check.violations.empty()) << check.violations.front();
  EXPECT_EQ(check.peak_bytes, report.peak_bytes);
  EXPECT_DOUBLE_EQ(check.cost, report.cost);
  const bool is_tiny = problem.ops.size() <= testing::kMostOfAKind &&
                       problem.storages.size() <= testing::kMostOfAKind;
  if (is_tiny) {
    EXPECT_TRUE(testing::is_valid(problem, ids_of(problem, report.schedule),
                                  static_cast<size_t>(parts ? parts->boundary_step : 0)));
  }
  if (!parts) return;
  EXPECT_EQ(check.parts->forward_peak_bytes, parts->forward_peak_bytes);
  EXPECT_EQ(check.parts->backward_peak_bytes, parts->backward_peak_bytes);
  EXPECT_EQ(check.parts->crossing_bytes, parts->crossing_bytes);
  EXPECT_EQ(check.parts->crossing, parts->crossing);
  EXPECT_LE(replay(problem, {report.schedule}).peak_bytes, report.peak_bytes);
}

RematReport solve_within(RematRequest request, int64_t budget) {
  request.budget = std::to_string(budget);
  return solve_remat(request);
}

struct Tally {
  int64_t solved = 0;
  int64_t refused = 0;
  int64_t recomputed = 0;
};

void expect_solved_within(const Problem& problem, const RematRequest& request, int64_t budget,
                          Tally& tally) {
  const RematReport report = solve_within(request, budget);
  const std::optional<double> best = least_cost(problem, budget, request.may_reorder);
  ASSERT_EQ(report.fits, best.has_value()) << budget;
  expect_report_is_true(problem, report);
  EXPECT_TRUE(report.is_optimal);
  if (!best) {
    ++tally.refused;
    return;
  }
  ++tally.solved;
  tally.recomputed += *best > report.base_cost ? 1 : 0;
  EXPECT_DOUBLE_EQ(report.cost, *best) << budget;
  EXPECT_LE(report.lower_bound_cost, *best * (1 + 1e-9));
}

// At the smallest peak, below it, and between it and keeping all.
void expect_solved(const Problem& problem, bool may_reorder, Tally& tally) {
  const io::TestFolder folder;
  RematRequest request;
  request.file = write(folder, "joint.json", remat_problem_json(problem));
  request.may_reorder = may_reorder;
  ASSERT_EQ(load_remat_problem(request.file), problem);
  const RematReport least = solve_within(request, 1);
  expect_report_is_true(problem, least);
  EXPECT_GE(least.peak_bytes, least.lower_bound_peak_bytes);
  const int64_t smallest = least.peak_bytes;
  const int64_t top = least.keep_all_peak_bytes;
  for (const int64_t budget : {smallest - 1, smallest, smallest + (top - smallest) / 2, top}) {
    if (budget > 0) expect_solved_within(problem, request, budget, tally);
  }
}

void expect_solved_both_ways(const Problem& problem, uint64_t seed, Tally& tally) {
  for (const bool may_reorder : {false, true}) {
    SCOPED_TRACE(std::to_string(seed) + (may_reorder ? " free" : " given"));
    expect_solved(problem, may_reorder, tally);
    if (::testing::Test::HasFailure()) ADD_FAILURE() << remat_problem_json(problem);
  }
}

TEST(RematJoint, Tiny_graphs_are_solved_as_exhaustive_search_solves_them) {
  Tally tally;
  for (uint64_t seed = 1; seed <= 400 && !HasFailure(); ++seed) {
    const auto number = static_cast<int32_t>(seed);
    const Problem problem = random_joint_graph(seed, {.forward_ops = 2 + number % 3,
                                                      .backward_ops = 2 + number / 3 % 2,
                                                      .views = number / 2 % 4,
                                                      .has_boundary = number % 8 != 0});
    expect_solved_both_ways(problem, seed, tally);
  }
  EXPECT_GT(tally.solved, 1000);
  EXPECT_GT(tally.refused, 400);
  EXPECT_GT(tally.recomputed, 100);
}

TEST(RematJoint, So_are_graphs_whose_ops_run_in_several_ways) {
  Tally tally;
  int64_t variants = 0;
  for (uint64_t seed = 1; seed <= 150 && !HasFailure(); ++seed) {
    const auto number = static_cast<int32_t>(seed);
    const Problem problem = random_joint_graph(seed, {.forward_ops = 2 + number % 3,
                                                      .backward_ops = 2 + number / 3 % 2,
                                                      .views = number / 2 % 3,
                                                      .variants = 1 + number % 4,
                                                      .has_boundary = number % 2 != 0});
    variants += static_cast<int64_t>(problem.variants.size());
    expect_solved_both_ways(problem, seed, tally);
  }
  EXPECT_GT(variants, 200);
  EXPECT_GT(tally.solved, 500);
  EXPECT_GT(tally.refused, 150);
  EXPECT_GT(tally.recomputed, 50);
}

TEST(RematJoint, So_are_graphs_of_up_to_12_ops) {
  Tally tally;
  for (uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    const auto number = static_cast<int32_t>(seed);
    const Problem problem = random_joint_graph(seed, {.forward_ops = 4 + number % 2,
                                                      .backward_ops = 4 + number / 2 % 2,
                                                      .views = 1 + number / 4 % 4,
                                                      .has_boundary = true});
    if (problem.ops.size() >= 9 && problem.ops.size() <= 12)
      expect_solved_both_ways(problem, seed, tally);
  }
  EXPECT_GT(tally.solved, 200);
  EXPECT_GT(tally.recomputed, 20);
}

// No op of the plain problem lies behind the boundary, and what is kept lives there all the same.
TEST(RematJoint, A_backward_part_of_views_has_what_is_kept_in_memory) {
  const io::TestFolder folder;
  RematRequest request;
  request.file = write(folder, "views.json", R"({
    "storages": [{"id": "loss", "bytes": 64}, {"id": "ones", "view_of": "tangent"}],
    "resident": ["w", "tangent"], "keep": ["loss", "ones"],
    "boundary": {"forward_outputs": ["loss"], "forward_base_bytes": 2048, "backward_base_bytes": 2112},
    "ops": [
      {"id": "sum", "cost": 1, "inputs": ["w"], "outputs": ["loss"], "recompute": false},
      {"id": "expand", "cost": 0, "inputs": ["tangent"], "outputs": ["ones"], "phase": "backward"}]})");
  const RematReport report = solve_within(request, 1 << 20);
  EXPECT_EQ(report.parts->backward_peak_bytes, 2112 + 64);
  EXPECT_EQ(report.parts->crossing, std::vector<std::string>{"loss"});
  expect_report_is_true(load_remat_problem(request.file), report);
}

// Too many ops for exhaustive search.
TEST(RematJoint, What_is_said_of_a_larger_graph_is_true) {
  int64_t fits = 0;
  for (uint64_t seed = 1; seed <= 24 && !HasFailure(); ++seed) {
    const Problem problem = random_joint_graph(seed, {.forward_ops = 7,
                                                      .backward_ops = 7,
                                                      .views = 6,
                                                      .variants = seed % 2 == 0 ? 6 : 0,
                                                      .has_boundary = seed % 6 != 0});
    const io::TestFolder folder;
    RematRequest request;
    request.file = write(folder, "joint.json", remat_problem_json(problem));
    request.effort = RematEffort::fast;
    for (const bool may_reorder : {false, true}) {
      request.may_reorder = may_reorder;
      for (const char* budget : {"0.9", "0.75", "0.6"}) {
        request.budget = budget;
        const RematReport report = solve_remat(request);
        expect_report_is_true(problem, report);
        EXPECT_LE(report.lower_bound_cost, report.cost * (1 + 1e-9));
        EXPECT_GE(report.peak_bytes, report.lower_bound_peak_bytes);
        fits += report.fits ? 1 : 0;
      }
    }
  }
  EXPECT_GT(fits, 25);
}

OpId other_way(const Problem& problem, OpId run, size_t pick) {
  std::vector<OpId> ways = {problem.op_of(run)};
  for (const OpId id : problem.variant_ids()) {
    if (problem.op_of(id) == ways.front()) ways.push_back(id);
  }
  return ways[pick % ways.size()];
}

// Most of what changes a schedule makes it wrong; the check and the exhaustive search's rules have
// nothing in common.
TEST(RematJoint, The_check_finds_what_was_planted_in_a_schedule) {
  std::mt19937_64 random(1);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  int64_t wrong = 0;
  int64_t right = 0;
  for (uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    const Problem problem = random_joint_graph(
        seed, {.forward_ops = 4, .backward_ops = 3, .views = 3, .variants = seed % 2 == 0 ? 4 : 0});
    const plan::PlainProblem plain = plan::plain_problem(problem);
    std::vector<OpId> order(plain.problem.ops.ids().begin(), plain.problem.ops.ids().end());
    const plan::JointSchedule good = plan::joint_schedule(problem, plain, order);
    for (int32_t i = 0; i < 40; ++i) {
      std::vector<OpId> ops = good.ops;
      auto boundary = static_cast<size_t>(good.parts->boundary_step);
      const size_t at = below(ops.size());
      const OpId op = ops[at];
      const size_t kind = below(problem.variants.empty() ? 4 : 5);
      if (kind == 4) ops[at] = other_way(problem, op, below(4));
      if (kind == 0 || kind == 2) ops.erase(ops.begin() + static_cast<ptrdiff_t>(at));
      if (kind == 1 || kind == 2)
        ops.insert(ops.begin() + static_cast<ptrdiff_t>(below(ops.size() + 1)), op);
      if (kind == 3) boundary = below(ops.size() + 1);
      boundary = std::min(boundary, ops.size());
      ScheduleFile schedule;
      for (const OpId id : ops) schedule.ops.push_back(problem.run(id).name);
      schedule.boundary_step = static_cast<int64_t>(boundary);
      const bool is_valid = testing::is_valid(problem, ops, boundary);
      const RematCheck check = replay(problem, schedule);
      EXPECT_EQ(check.violations.empty(), is_valid)
          << seed << " " << (is_valid ? check.violations.front() : "nothing found");
      ++(is_valid ? right : wrong);
    }
  }
  EXPECT_GT(wrong, 2000);
  EXPECT_GT(right, 500);
}

}  // namespace
}  // namespace snug::solve
