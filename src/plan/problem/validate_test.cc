// SPDX-License-Identifier: Apache-2.0
// The validator accepts what is right and finds every planted error.
#include "plan/problem/validate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "plan/frontier/frontier.h"
#include "plan/placement/assemble.h"
#include "plan/problem/liveness.h"
#include "plan/problem/test_problems.h"
#include "snug/error.h"

namespace snug::plan {
namespace {

void expect_rejected(const Problem& problem, const std::string& part) {
  try {
    validate(problem);
    FAIL() << "accepted; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_graph);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Validate, Broken_problems_are_rejected_by_name) {
  const Problem good = testing::unit_chain(4);
  EXPECT_NO_THROW(validate(good));
  const auto with = [&](const std::function<void(Problem&)>& change) {
    Problem bad = good;
    change(bad);
    return bad;
  };
  expect_rejected(with([](Problem& p) { p.ops[OpId(1)].inputs = {StorageId(99)}; }),
                  "99 is not a storage");
  expect_rejected(with([](Problem& p) { p.ops[OpId(1)].outputs = {kNone}; }),
                  "-1 is not a storage");
  expect_rejected(
      with([](Problem& p) { p.ops[OpId(1)].inputs.push_back(p.ops[OpId(1)].inputs[0]); }),
      "listed twice");
  expect_rejected(with([](Problem& p) { p.storages[StorageId(0)].bytes = -64; }), "negative size");
  expect_rejected(with([](Problem& p) { p.storages[StorageId(0)].bytes = 63; }),
                  "not a multiple of the alignment 64");
  expect_rejected(with([](Problem& p) { p.ops[OpId(1)].scratch_bytes = 1; }), "f (scratch)");
  expect_rejected(with([](Problem& p) { std::swap(p.ops[OpId(1)], p.ops[OpId(2)]); }),
                  "before any op has made it");
  expect_rejected(with([](Problem& p) { p.ops[OpId(2)].outputs = p.ops[OpId(1)].outputs; }),
                  "which another op has made");
  expect_rejected(with([](Problem& p) { p.ops[OpId(1)].seconds = -1; }), "no valid duration");
  expect_rejected(with([](Problem& p) { p.keep = {StorageId(99)}; }), "99 is not a storage");
  expect_rejected(with([](Problem& p) {
                    p.storages.push_back({"orphan", 64, false});
                    p.keep = {p.storages.end_id() - 1};
                  }),
                  "'orphan' is made by no op");
  expect_rejected(with([](Problem& p) { p.alignment = 0; }), "alignment must be positive");
  expect_rejected(with([](Problem& p) { p.kept_seconds_per_byte = -1; }), "kept_seconds_per_byte");
}

// What the reader of problem files cannot let through.
TEST(Validate, Broken_views_and_boundaries_are_rejected_by_name) {
  const auto with = [](const std::function<void(Problem&)>& change) {
    Problem bad = testing::unit_chain(4);
    bad.boundary.emplace();
    bad.storages.push_back({"v", 0, false});
    bad.storages.push_back({"u", 0, false});
    for (const int32_t back : {2, 1})
      bad.storages[bad.storages.end_id() - back].view_of = StorageId(0);
    change(bad);
    return bad;
  };
  EXPECT_NO_THROW(validate(with([](Problem&) {})));
  const auto last = [](Problem& p) -> Storage& { return p.storages.back(); };
  expect_rejected(with([&](Problem& p) { last(p).view_of = StorageId(99); }),
                  "view of 99, which is no storage");
  expect_rejected(with([&](Problem& p) { last(p).view_of = p.storages.end_id() - 2; }),
                  "is a view of a view");
  expect_rejected(with([&](Problem& p) { last(p).resident = true; }), "is resident and a view");
  expect_rejected(with([&](Problem& p) { last(p).bytes = 64; }), "has bytes of its own");
  expect_rejected(with([](Problem& p) { p.boundary->between_bytes = 1; }),
                  "boundary.between_bytes");
  expect_rejected(with([](Problem& p) { p.boundary->forward_outputs = {StorageId(99)}; }),
                  "99 is not a storage");
  expect_rejected(with([](Problem& p) { p.ops[OpId(1)].is_ordered = true; }),
                  "is ordered and may run again");
  // Everything but the solver's front works on plain problems only.
  const Problem joint = with([](Problem&) {});
  EXPECT_THROW((void)build_frontier(joint), Error);
  EXPECT_THROW((void)check_schedule(joint, given_order(joint)), Error);
}

// "b" is written over "a", which only its op reads, and is kept.
Problem overwriting_problem(int64_t bytes_of_b) {
  Problem problem;
  for (const int64_t bytes : {int64_t{128}, bytes_of_b, int64_t{64}})
    problem.storages.push_back({"s" + std::to_string(problem.storages.size()), bytes, false});
  const auto op = [&](std::vector<StorageId> inputs, StorageId output) {
    Op made;
    made.name = "makes " + to_string(output);
    made.inputs = std::move(inputs);
    made.outputs = {output};
    made.may_recompute = false;
    problem.ops.push_back(made);
  };
  const StorageId a(0);
  const StorageId b(1);
  const StorageId c(2);
  op({}, a);
  op({a}, b);
  problem.ops.back().reuses = {{b, a}};
  op({b}, c);
  problem.keep = {b, c};
  return problem;
}

TEST(Check, An_output_lies_where_the_input_lay_that_it_overwrites) {
  const Problem problem = overwriting_problem(128);
  validate(problem);
  const Plan plan = assemble(problem, given_order(problem), "keep-all");
  EXPECT_TRUE(check(problem, plan).empty());
  EXPECT_EQ(plan.arena_bytes, 128 + 64);
  EXPECT_EQ(plan.load_bytes, plan.arena_bytes);
  EXPECT_EQ(plan.steps[1].input_offsets, plan.steps[1].output_offsets);

  Problem apart = problem;
  apart.ops[OpId(1)].reuses.clear();
  EXPECT_EQ(assemble(apart, given_order(apart), "keep-all").arena_bytes, 2 * 128);
  // A plan may keep the two apart, but then both count; and nothing is overwritten unasked.
  Plan kept_apart = assemble(apart, given_order(apart), "keep-all");
  EXPECT_TRUE(check(problem, kept_apart).empty()) << check(problem, kept_apart).front();
  kept_apart.load_bytes = plan.load_bytes;
  EXPECT_FALSE(check(problem, kept_apart).empty());
  EXPECT_FALSE(check(apart, plan).empty());
}

// First and last op, and units of 64 bytes. The second storage may overwrite the first; as one
// range of ops 0 to 8 the two cannot be placed within the load of 13 units, apart they can.
TEST(Check, Places_are_separated_where_there_is_room_for_both) {
  constexpr int32_t kRanges[][3] = {{0, 2, 2}, {2, 8, 2}, {1, 6, 4}, {3, 7, 2},
                                    {8, 8, 4}, {5, 5, 4}, {1, 1, 3}, {6, 8, 3},
                                    {7, 7, 3}, {7, 8, 3}, {1, 1, 3}, {1, 6, 1}};
  Problem problem;
  problem.ops.resize(9);
  for (const auto& [first, last, units] : kRanges) {
    const std::string name = "s" + to_string(problem.storages.end_id());
    const StorageId id = problem.storages.add({name, int64_t{64} * units, false});
    problem.ops[OpId(first)].outputs.push_back(id);
    if (last > first) problem.ops[OpId(last)].inputs.push_back(id);
  }
  problem.ops[OpId(2)].reuses = {{StorageId(1), StorageId(0)}};
  validate(problem);
  const Plan plan = assemble(problem, given_order(problem), "keep-all");
  EXPECT_TRUE(check(problem, plan).empty()) << check(problem, plan).front();
  EXPECT_EQ(plan.load_bytes, 13 * 64);
  EXPECT_EQ(plan.arena_bytes, plan.load_bytes);
  EXPECT_NE(plan.steps[2].output_offsets.front(), plan.steps[2].input_offsets.front());
}

TEST(Check, An_overwritten_input_counts_at_its_own_size) {
  const Problem narrower = overwriting_problem(64);
  const Plan plan = assemble(narrower, given_order(narrower), "keep-all");
  EXPECT_TRUE(check(narrower, plan).empty()) << check(narrower, plan).front();
  EXPECT_EQ(plan.load_bytes, 128);

  // Scratch in the part of the input that the output leaves free: the op still reads it.
  Problem busy = narrower;
  busy.ops[OpId(1)].scratch_bytes = 64;
  Plan bad = assemble(busy, given_order(busy), "keep-all");
  EXPECT_TRUE(check(busy, bad).empty());
  const auto scratch = std::find_if(bad.live_ranges.begin(), bad.live_ranges.end(),
                                    [](const LiveRange& range) { return range.is_scratch(); });
  bad.offsets[static_cast<size_t>(scratch - bad.live_ranges.begin())] = 64;
  bad.steps[1].scratch_offset = 64;
  const std::vector<std::string> found = check(busy, bad);
  EXPECT_TRUE(std::any_of(found.begin(), found.end(), [](const std::string& violation) {
    return violation.find("overlaps") != std::string::npos;
  }));
}

class CheckMutations : public ::testing::Test {
 protected:
  // The smallest plan of an encoder: recomputation, reuse of bytes, updates.
  CheckMutations()
      : problem_(testing::encoder(
            {.layers = 2, .tokens = 1024, .hidden = 64, .heads = 2, .accumulates = false})),
        plan_(build_frontier(problem_).smallest()) {}

  void expect_found(const std::function<void(Plan&)>& change, const std::string& part) {
    Plan mutant = plan_;
    change(mutant);
    const auto violations = check(problem_, mutant);
    const bool is_found =
        std::any_of(violations.begin(), violations.end(),
                    [&](const std::string& each) { return each.find(part) != std::string::npos; });
    EXPECT_TRUE(is_found) << "expected: " << part
                          << "; got: " << (violations.empty() ? "nothing" : violations.front());
  }

  Problem problem_;
  Plan plan_;
};

TEST_F(CheckMutations, The_plan_itself_is_valid_and_recomputes) {
  EXPECT_TRUE(check(problem_, plan_).empty());
  EXPECT_GT(plan_.steps.size(), problem_.ops.size());
}

TEST_F(CheckMutations, Wrong_numbers_are_found) {
  expect_found([](Plan& p) { p.arena_bytes += 64; }, "arena_bytes is");
  expect_found([](Plan& p) { p.load_bytes -= 64; }, "load_bytes is");
  expect_found([](Plan& p) { p.seconds *= 1.01; }, "seconds is");
  expect_found([](Plan& p) { p.peak_step = 0; }, "does not reach the load");
  expect_found([](Plan& p) { p.live_ranges.pop_back(); }, "ranges");
  expect_found([](Plan& p) { p.live_ranges[3].last += 1; }, "differ from the steps");
}

TEST_F(CheckMutations, Every_shifted_output_is_found) {
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    const auto& outputs = plan_.steps[i].output_offsets;
    if (outputs.empty() || outputs[0] == kResidentOffset) continue;
    Plan mutant = plan_;
    mutant.steps[i].output_offsets[0] += 64;
    ASSERT_FALSE(check(problem_, mutant).empty()) << "step " << i;
  }
}

TEST_F(CheckMutations, Every_dropped_or_swapped_step_is_found_or_harmless) {
  size_t found = 0;
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    Plan mutant = plan_;
    mutant.steps.erase(mutant.steps.begin() + static_cast<std::ptrdiff_t>(i));
    ASSERT_FALSE(check(problem_, mutant).empty()) << "dropped step " << i;
  }
  for (size_t i = 0; i + 1 < plan_.steps.size(); ++i) {
    Plan mutant = plan_;
    std::swap(mutant.steps[i], mutant.steps[i + 1]);
    if (!check(problem_, mutant).empty()) ++found;
  }
  EXPECT_GT(found, plan_.steps.size() / 2);
}

TEST_F(CheckMutations, A_once_only_op_may_not_run_twice) {
  expect_found(
      [&](Plan& p) {
        for (const Step& step : p.steps) {
          if (problem_.ops[step.op].phase != Phase::update) continue;
          p.steps.push_back(step);
          return;
        }
      },
      "must run once");
  expect_found([](Plan& p) { p.steps.front().op = OpId(1'000'000); }, "is not an op");
  expect_found([](Plan& p) { p.steps[5].input_offsets.push_back(0); }, "has offsets for");
}

TEST(Check, Overlap_is_found_also_between_input_output_and_scratch_of_one_step) {
  Problem problem;
  problem.storages = {{"x", 64, false}, {"y", 64, false}};
  problem.ops = {{.name = "make", .scope = "", .inputs = {}, .outputs = {StorageId(0)}},
                 {.name = "use",
                  .scope = "",
                  .inputs = {StorageId(0)},
                  .outputs = {StorageId(1)},
                  .scratch_bytes = 64}};
  problem.keep = {StorageId(1)};
  const Plan good = assemble(problem, given_order(problem), "keep-all");
  ASSERT_TRUE(check(problem, good).empty());
  EXPECT_EQ(good.arena_bytes, 192);
  Plan bad = good;
  bad.steps[1].output_offsets[0] = bad.steps[1].input_offsets[0];
  const auto violations = check(problem, bad);
  ASSERT_FALSE(violations.empty());
  EXPECT_NE(violations.front().find("overlaps"), std::string::npos) << violations.front();
  bad = good;
  bad.steps[1].scratch_offset = bad.steps[1].input_offsets[0];
  EXPECT_FALSE(check(problem, bad).empty());
}

TEST(Check, Scratch_is_listed_as_that_of_its_op) {
  Problem problem = testing::unit_chain(4);
  problem.ops[OpId(1)].scratch_bytes = 64;
  const Plan good = assemble(problem, given_order(problem), "keep-all");
  ASSERT_TRUE(check(problem, good).empty());
  Plan bad = good;
  for (LiveRange& range : bad.live_ranges) {
    if (range.is_scratch()) range.scratch_of = OpId(99);
  }
  EXPECT_FALSE(check(problem, bad).empty());
}

TEST(Check, Resident_versions_must_be_those_of_the_given_order) {
  const Problem problem = testing::stale_weight_hazard();
  std::vector<OpId> schedule = given_order(problem);
  EXPECT_TRUE(check_schedule(problem, schedule).empty());
  const auto update = std::find_if(problem.ops.begin(), problem.ops.end(),
                                   [](const Op& op) { return op.phase == Phase::update; });
  const auto position = update - problem.ops.begin();
  schedule.insert(schedule.begin() + position + 1, OpId(2));  // f2 reads w, again, after w's update
  const auto violations = check_schedule(problem, schedule);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations.front(),
            "step 9: op 'f2' sees 'w' after 1 writes, in the given order after 0");
}

}  // namespace
}  // namespace snug::plan
