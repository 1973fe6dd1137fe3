// SPDX-License-Identifier: Apache-2.0
// The order of candidates, the fastest that fits and the smallest, of splits made by hand.
#include "choose/candidates.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace snug::choose {
namespace {

// One op; what matters here is what the plan says of itself.
plan::Problem one_op() {
  plan::Problem problem;
  const plan::StorageId y = problem.storages.add({.name = "y", .bytes = kPageBytes});
  problem.ops.push_back({.name = "op", .scope = {}, .seconds = 1, .inputs = {}, .outputs = {y}});
  problem.keep = {y};
  return problem;
}

/// In pages: a split of so many resident bytes, with one plan whose placement may miss its load.
struct Pages {
  int64_t resident = 0;
  int64_t load = 0;
  int64_t arena = 0;
  int64_t other_arena = 0;
};

BatchSplit split_of(double seconds, const Pages& pages) {
  BatchSplit split;
  split.form.micro_batch = 1;
  split.accumulation_steps = 2;
  split.update_seconds = 1;
  split.resident_bytes = pages.resident * kPageBytes;
  split.other_arena_bytes = pages.other_arena * kPageBytes;
  split.program = std::make_unique<PlannedProgram>();
  split.program->lowered.problem = one_op();
  plan::Plan plan;
  plan.strategy = "made by hand";
  plan.seconds = seconds;
  plan.load_bytes = pages.load * kPageBytes;
  plan.arena_bytes = pages.arena * kPageBytes;
  split.frontier.emplace(split.problem(), std::move(plan));
  return split;
}

class Candidates : public testing::Test {
 protected:
  void add(double seconds, const Pages& pages) { splits_.push_back(split_of(seconds, pages)); }
  [[nodiscard]] std::vector<Candidate> all() const { return candidates_of(splits_, request_); }
  [[nodiscard]] size_t index(const Candidate& candidate) const {
    return static_cast<size_t>(candidate.split - splits_.data());
  }
  // Which split is the fastest within so many pages; -1: none.
  [[nodiscard]] int fastest_within(int64_t pages) {
    request_.budget_bytes = pages * kPageBytes;
    const auto found = best_within(all(), request_);
    return found ? static_cast<int>(index(*found)) : -1;
  }

  std::vector<BatchSplit> splits_;
  RunPlanRequest request_;
};

TEST_F(Candidates, the_fastest_stand_first_and_of_equal_ones_the_smallest) {
  add(3, {.resident = 1, .load = 1, .arena = 1});
  add(1, {.resident = 1, .load = 9, .arena = 9});
  add(2, {.resident = 1, .load = 7, .arena = 7});
  add(2, {.resident = 1, .load = 5, .arena = 5});
  std::vector<size_t> order;
  for (const Candidate& each : all()) order.push_back(index(each));
  EXPECT_EQ(order, (std::vector<size_t>{1, 3, 2, 0}));
  // Two runs of the program, and what runs once an update.
  EXPECT_DOUBLE_EQ(all().front().step_seconds, 2 * 1 + 1);
}

TEST_F(Candidates, the_fastest_that_fits_once_it_is_placed_is_taken) {
  add(1, {.resident = 2, .load = 10, .arena = 12});
  add(2, {.resident = 2, .load = 6, .arena = 6});
  add(3, {.resident = 2, .load = 3, .arena = 3});
  EXPECT_EQ(fastest_within(14), 0);
  EXPECT_EQ(fastest_within(13), 1);  // the load of the first fits, and its placement does not
  EXPECT_EQ(fastest_within(8), 1);
  EXPECT_EQ(fastest_within(7), 2);
  EXPECT_EQ(fastest_within(5), 2);
  EXPECT_EQ(fastest_within(4), -1);
  request_.process_bytes = kPageBytes;
  EXPECT_EQ(fastest_within(5), -1);
  EXPECT_EQ(fastest_within(6), 2);
}

TEST_F(Candidates, the_arena_holds_every_other_program) {
  add(1, {.resident = 0, .load = 2, .arena = 2, .other_arena = 5});
  EXPECT_EQ(fastest_within(4), -1);
  EXPECT_EQ(fastest_within(5), 0);
  EXPECT_EQ(placed(all().front(), request_).arena_bytes, 5 * kPageBytes);
}

TEST_F(Candidates, the_smallest_is_that_of_the_placements) {
  add(1, {.resident = 0, .load = 4, .arena = 9});
  add(2, {.resident = 0, .load = 5, .arena = 6});
  add(3, {.resident = 1, .load = 5, .arena = 5});
  add(4, {.resident = 0, .load = 7, .arena = 7});
  const PlacedCandidate smallest = smallest_of(all(), request_);
  EXPECT_EQ(smallest.peak_bytes, 6 * kPageBytes);
  EXPECT_EQ(index(smallest), 1U);  // the faster of two
}

TEST_F(Candidates, below_what_the_start_needs_the_fastest_is_the_smallest) {
  add(1, {.resident = 0, .load = 4, .arena = 4});
  add(2, {.resident = 0, .load = 2, .arena = 2});
  EXPECT_EQ(index(smallest_of(all(), request_)), 1U);
  request_.startup_bytes = 4 * kPageBytes;
  EXPECT_EQ(index(smallest_of(all(), request_)), 0U);
  EXPECT_EQ(smallest_of(all(), request_).peak_bytes, 4 * kPageBytes);
}

}  // namespace
}  // namespace snug::choose
