// SPDX-License-Identifier: Apache-2.0
// Ops that may run in several ways: what is read, what is refused, what is planned and checked.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "io/test_folder.h"
#include "snug/error.h"
#include "snug/solve_remat.h"
#include "solve/remat_check.h"
#include "solve/remat_file.h"
#include "solve/remat_write.h"

namespace snug::solve {
namespace {

// The gradient of the second weight reads what gelu made, or computes it within from what that
// read.
constexpr const char* kMlp = R"({
  "storages": [{"id": "x", "bytes": 10}, {"id": "u", "bytes": 40}, {"id": "g", "bytes": 40},
               {"id": "y", "bytes": 10}, {"id": "dy", "bytes": 10}, {"id": "dw2", "bytes": 4},
               {"id": "du", "bytes": 40}, {"id": "dw1", "bytes": 4}],
  "resident": ["w1", "w2"], "keep": ["dw1", "dw2"],
  "ops": [
    {"id": "load", "cost": 0, "inputs": [], "outputs": ["x"], "recompute": false},
    {"id": "up", "cost": 4, "inputs": ["x", "w1"], "outputs": ["u"]},
    {"id": "gelu", "cost": 1, "inputs": ["u"], "outputs": ["g"]},
    {"id": "down", "cost": 4, "inputs": ["g", "w2"], "outputs": ["y"]},
    {"id": "loss", "phase": "loss", "cost": 1, "inputs": ["y"], "outputs": ["dy"]},
    {"id": "grad.w2", "phase": "backward", "cost": 4, "inputs": ["dy", "g"], "outputs": ["dw2"], "scratch_bytes": 8,
     "variants": [{"id": "grad.w2 with gelu", "cost": 5, "inputs": ["dy", "u"], "scratch_bytes": 2}]},
    {"id": "grad.gelu", "phase": "backward", "cost": 5, "inputs": ["dy", "w2", "u"], "outputs": ["du"]},
    {"id": "grad.w1", "phase": "backward", "cost": 4, "inputs": ["du", "x"], "outputs": ["dw1"]}]})";

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kMlp;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string with_variant(const std::string& variant) {
  return changed(
      R"({"id": "grad.w2 with gelu", "cost": 5, "inputs": ["dy", "u"], "scratch_bytes": 2})",
      variant);
}

void expect_refused(const std::string& text, const std::string& words) {
  EXPECT_ERROR((void)parse_remat_problem(text, "p.json"), words);
}

TEST(Variants, Are_read_and_written) {
  const plan::Problem problem = parse_remat_problem(kMlp, "p.json");
  ASSERT_EQ(problem.variants.size(), 1u);
  const plan::Op& variant = problem.variants.front();
  EXPECT_EQ(variant.variant_of, plan::OpId(5));
  EXPECT_EQ(variant.name, "grad.w2 with gelu");
  EXPECT_EQ(variant.seconds, 5);
  EXPECT_EQ(variant.scratch_bytes, 2);
  EXPECT_EQ(variant.outputs, problem.ops[plan::OpId(5)].outputs);
  EXPECT_EQ(variant.phase, Phase::backward);
  EXPECT_EQ(parse_remat_problem(remat_problem_json(problem), "again.json"), problem);
}

TEST(Variants, Scratch_is_their_own) {
  const plan::Problem problem = parse_remat_problem(
      with_variant(R"({"id": "v", "cost": 4, "inputs": ["dy", "u"]})"), "p.json");
  EXPECT_EQ(problem.variants.front().scratch_bytes, 0);
}

TEST(Variants, What_is_wrong_with_them_is_refused_by_name) {
  expect_refused(
      changed(
          R"("variants": [{"id": "grad.w2 with gelu", "cost": 5, "inputs": ["dy", "u"], "scratch_bytes": 2}])",
          R"("variants": {})"),
      R"("ops[5].variants" must be a list)");
  expect_refused(with_variant("3"), R"("ops[5].variants[0]" must be an object)");
  expect_refused(with_variant(R"({"id": "v", "cost": 5, "inputs": [], "outputs": ["dw2"]})"),
                 "is no field of a variant");
  expect_refused(with_variant(R"({"id": "v", "cost": 5})"), "inputs");
  expect_refused(with_variant(R"({"id": "up", "cost": 5, "inputs": []})"),
                 "is the id of two ops: \"up\"");
  expect_refused(with_variant(R"({"id": "v", "cost": 3, "inputs": ["dy", "u"]})"),
                 "takes 3, less than op 'grad.w2' itself, 4");
  expect_refused(with_variant(R"({"id": "v", "cost": 5, "inputs": ["dy", "du"]})"),
                 "reads 'du' before any op has made it");
  expect_refused(with_variant(R"({"id": "v", "cost": 5, "inputs": ["dw2"]})"),
                 "reads 'dw2' before any op has made it");
  expect_refused(with_variant(R"({"id": "v", "cost": 5, "inputs": ["q"]})"), "names \"q\"");
  expect_refused(with_variant(R"({"id": "v", "cost": 5, "inputs": ["u"], "scratch_bytes": -1})"),
                 "scratch_bytes");
  expect_refused(changed(R"("scratch_bytes": 8,)", R"("reuses": {"dw2": "dy"},)"),
                 "writes in the place of an input");
}

TEST(Variants, A_storage_that_is_written_is_read_by_all_ways_or_by_none) {
  const std::string text = changed(
      R"({"id": "grad.gelu",)",
      R"({"id": "set", "phase": "update", "cost": 1, "inputs": ["w1"], "outputs": ["w1"]}, {"id": "grad.gelu",)");
  EXPECT_NO_THROW((void)parse_remat_problem(text, "p.json"));
  std::string reading = text;
  const std::string inputs = R"("cost": 5, "inputs": ["dy", "u"], "scratch_bytes": 2)";
  reading.replace(reading.find(inputs), inputs.size(), R"("cost": 5, "inputs": ["dy", "u", "w1"])");
  expect_refused(reading, "reads 'w1', which an op writes and 'grad.w2' itself does not read");
}

TEST(Variants, Views_have_none) {
  expect_refused(R"({"storages": [{"id": "h", "bytes": 4}, {"id": "v", "view_of": "h"}], "ops": [
      {"id": "f", "cost": 1, "inputs": [], "outputs": ["h"]},
      {"id": "turn", "cost": 0, "inputs": ["h"], "outputs": ["v"],
       "variants": [{"id": "w", "cost": 0, "inputs": ["h"]}]}]})",
                 "which makes only views and costs nothing");
}

class SolvedVariants : public ::testing::Test {
 protected:
  RematReport at(const std::string& text, int64_t budget, bool may_reorder = false) {
    std::ofstream(folder_ / "p.json") << text;
    RematRequest request;
    request.file = folder_ / "p.json";
    request.budget = std::to_string(budget);
    request.may_reorder = may_reorder;
    RematReport report = solve_remat(request);
    const RematCheck check = replay(parse_remat_problem(text, "p.json"), {report.schedule});
    EXPECT_TRUE(check.violations.empty());
    EXPECT_EQ(check.peak_bytes, report.peak_bytes);
    EXPECT_DOUBLE_EQ(check.cost, report.cost);
    return report;
  }
  static bool runs(const RematReport& report, const std::string& op) {
    return std::find(report.schedule.begin(), report.schedule.end(), op) != report.schedule.end();
  }

 private:
  io::TestFolder folder_;
};

// grad.gelu has x, u, dy, dw2 and du: 104 bytes. Beside u, gelu run again for grad.w2 takes 112, so
// up runs again as well; computed within, it takes nothing.
TEST_F(SolvedVariants, What_is_computed_within_takes_no_bytes) {
  const RematReport all = at(kMlp, 1000);
  EXPECT_EQ(all.cost, 23);
  EXPECT_FALSE(runs(all, "grad.w2 with gelu"));
  const std::string without = changed(
      R"("variants": [{"id": "grad.w2 with gelu", "cost": 5, "inputs": ["dy", "u"], "scratch_bytes": 2}])",
      R"("recompute": false)");
  EXPECT_EQ(at(without, 104).cost, 27);
  const RematReport within = at(kMlp, 104);
  EXPECT_TRUE(within.fits);
  EXPECT_EQ(within.cost, 24);
  EXPECT_TRUE(runs(within, "grad.w2 with gelu"));
  EXPECT_FALSE(runs(within, "grad.w2"));
  EXPECT_LE(within.lower_bound_peak_bytes, 104);
}

// An algorithm of the same operands that is slower and needs no workspace.
TEST_F(SolvedVariants, Scratch_and_time_are_weighed) {
  const std::string text =
      R"({"storages": [{"id": "x", "bytes": 4}, {"id": "y", "bytes": 4}], "keep": ["y"], "ops": [
      {"id": "load", "cost": 0, "inputs": [], "outputs": ["x"], "recompute": false},
      {"id": "conv", "cost": 1, "inputs": ["x"], "outputs": ["y"], "scratch_bytes": 100,
       "variants": [{"id": "conv, half", "cost": 2, "inputs": ["x"], "scratch_bytes": 50},
                    {"id": "conv, bare", "cost": 4, "inputs": ["x"]}]}]})";
  EXPECT_EQ(at(text, 108).cost, 1);
  EXPECT_EQ(at(text, 107).cost, 2);
  EXPECT_EQ(at(text, 58).cost, 2);
  EXPECT_EQ(at(text, 57).cost, 4);
  EXPECT_EQ(at(text, 8).cost, 4);
  const RematReport refused = at(text, 7);
  EXPECT_FALSE(refused.fits);
  EXPECT_EQ(refused.lower_bound_peak_bytes, 8);
  EXPECT_EQ(refused.lower_bound_op, "conv");
}

// A variant reads s, which is written over: the op runs again behind that by itself.
TEST_F(SolvedVariants, One_that_reads_what_is_written_over_holds_no_other_way_back) {
  const std::string text =
      R"({"storages": [{"id": "s", "bytes": 3}, {"id": "t", "bytes": 4}, {"id": "u", "bytes": 3}, {"id": "z", "bytes": 4}],
    "keep": ["t", "z"], "ops": [
      {"id": "a", "cost": 5, "inputs": [], "outputs": ["s"], "recompute": false},
      {"id": "b", "cost": 3, "inputs": [], "outputs": ["t"], "variants": [{"id": "b of s", "cost": 6, "inputs": ["s"]}]},
      {"id": "c", "cost": 5, "inputs": ["s"], "outputs": ["u"], "scratch_bytes": 6, "reuses": {"u": "s"}},
      {"id": "d", "cost": 5, "inputs": ["u"], "outputs": ["z"]}]})";
  const RematReport all = at(text, 100);
  EXPECT_EQ(all.peak_bytes, 13);
  const RematReport less = at(text, 12);
  EXPECT_TRUE(less.fits);
  EXPECT_EQ(less.cost, all.cost + 3);
  EXPECT_LE(less.lower_bound_peak_bytes, less.peak_bytes);
}

// Where c runs first, which takes less, b cannot read s any more. Too many ops to try all
// schedules.
TEST_F(SolvedVariants, Another_order_leaves_some_of_them_out) {
  std::string storages, ops, before = "u";
  for (int32_t i = 0; i < 12; ++i) {
    const std::string id = "y" + std::to_string(i);
    storages += R"(, {"id": ")" + id + R"(", "bytes": 2})";
    ops += R"(, {"id": "f)" + id + R"(", "cost": 1, "inputs": [")" + before +
           R"("], "outputs": [")" + id + R"("]})";
    before = id;
  }
  const std::string text =
      R"({"storages": [{"id": "s", "bytes": 40}, {"id": "t", "bytes": 10}, {"id": "u", "bytes": 1})" +
      storages + R"(], "keep": ["t", ")" + before + R"("], "ops": [
      {"id": "a", "cost": 5, "inputs": [], "outputs": ["s"], "recompute": false},
      {"id": "b", "cost": 3, "inputs": [], "outputs": ["t"], "scratch_bytes": 20, "variants": [{"id": "b of s", "cost": 3, "inputs": ["s"]}]},
      {"id": "c", "cost": 5, "inputs": ["s"], "outputs": ["u"], "reuses": {"u": "s"}})" +
      ops + "]}";
  for (const bool may_reorder : {false, true}) {
    const RematReport all = at(text, 1000, may_reorder);
    for (int64_t budget = all.peak_bytes; budget > 0; budget -= 7) {
      const RematReport report = at(text, budget, may_reorder);
      EXPECT_LE(report.lower_bound_peak_bytes, report.peak_bytes);
      EXPECT_LE(report.lower_bound_cost, report.cost);
    }
  }
}

TEST_F(SolvedVariants, The_check_knows_what_a_variant_reads) {
  const plan::Problem problem = parse_remat_problem(kMlp, "p.json");
  const auto check = [&](const std::vector<std::string>& schedule) {
    return replay(problem, {schedule});
  };
  const std::vector<std::string> good = {
      "load", "up", "gelu", "down", "loss", "grad.w2 with gelu", "grad.gelu", "grad.w1"};
  EXPECT_TRUE(check(good).violations.empty());
  EXPECT_EQ(check(good).cost, 24);
  std::vector<std::string> twice = good;
  twice.insert(twice.begin() + 6, "grad.w2");
  EXPECT_NE(check(twice).violations.front().find("\"grad.w2\" has run 2 times"), std::string::npos);
  std::vector<std::string> early = good;
  std::swap(early[1], early[5]);
  EXPECT_NE(check(early).violations.front().find("op \"grad.w2 with gelu\" reads \"dy\""),
            std::string::npos);
}

}  // namespace
}  // namespace snug::solve
