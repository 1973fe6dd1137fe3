// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/json.h"

#include <gtest/gtest.h>

#include "plan/frontier/frontier.h"
#include "plan/problem/peak_report.h"
#include "plan/problem/test_problems.h"
#include "snug/error.h"

namespace snug::plan {
namespace {

TEST(Json, Problems_and_plans_come_back_exactly) {
  Problem problem = testing::encoder({.layers = 2, .accumulates = false});
  problem.ops[OpId(3)].seconds = 1.0 / 3.0;
  problem.ops[OpId(4)].signature = ~uint64_t{0};
  problem.kept_seconds_per_byte = 1.0 / 7.0;
  problem.ops.front().is_expensive = true;
  problem.ops[OpId(2)].parts = {0, 3};
  problem.storages[StorageId(1)].is_marked = true;
  problem.ops[OpId(5)].name = "quote\" and ü";
  EXPECT_EQ(problem_from_json(to_json(problem)), problem);
  const Frontier frontier = build_frontier(problem);
  for (const Plan& plan : frontier.plans()) EXPECT_EQ(plan_from_json(to_json(plan)), plan);
  problem.ops[OpId(6)].fusion = {
      .kind = ~uint64_t{0}, .most = 8, .seconds = 1.0 / 3.0, .scratch_bytes = 64};
  EXPECT_EQ(problem_from_json(to_json(problem)), problem);
  testing::add_random_variants(1, problem);
  EXPECT_GT(problem.variants.size(), 3u);
  EXPECT_EQ(problem_from_json(to_json(problem)), problem);
  Plan fused = frontier.smallest();
  fused.steps.back().fused = Fused::sums;
  EXPECT_EQ(plan_from_json(to_json(fused)), fused);
}

TEST(Json, Broken_text_is_refused_with_the_field) {
  const auto expect_refused = [](const std::string& text, const std::string& part) {
    try {
      (void)problem_from_json(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_data);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  expect_refused("", "broken JSON");
  expect_refused("[1, 2", "broken JSON");
  // Deep enough to end the stack of a parser that copies it.
  const std::string deep(500'000, '[');
  expect_refused("{\"storages\": " + deep + std::string(500'000, ']') + "}",
                 "nested deeper than 8");
  expect_refused(R"({"storages": [], "storages": []})", "stands twice");
  expect_refused("[]", "must be an object, found a list of 0");
  expect_refused("{}", R"(lacks the field "storages")");
  expect_refused(R"({"storages": 3})", R"("storages" is not a list)");
  expect_refused(R"({"storages": [{"name": 1, "bytes": 1, "resident": false}]})",
                 R"("storages[0].name" must be a text, found 1)");
  expect_refused(R"({"storages": [{"name": "x", "bytes": 1.5, "resident": false}]})",
                 R"("storages[0].bytes" must be an integer, found 1.5)");
  expect_refused(R"({"storages": [{"name": "x", "bytes": 1, "resident": 0}]})",
                 R"("storages[0].resident" must be true or false, found 0)");
  expect_refused(
      R"({"storages": [{"name": "x", "bytes": 99999999999999999999, "resident": true}]})",
      R"("storages[0].bytes" must be an integer)");
  expect_refused(R"({"storages": [], "ops": [{"name": "f", "scope": "", "phase": "sideways"}]})",
                 R"("ops[0].phase" is no phase: 'sideways')");
  expect_refused(R"({"storages": [], "ops": [], "keep": [4294967296]})",
                 R"("keep[0]" must be an integer from)");
  EXPECT_THROW((void)plan_from_json(R"({"strategy": "keep-all"})"), Error);
}

TEST(PeakReport, Rows_sum_to_the_load_and_the_table_names_the_largest) {
  const Problem problem = testing::encoder({.layers = 2});
  const Plan plan = plan_strategy(problem, "keep-all");
  const PeakReport report = peak_report(problem, plan);
  int64_t sum = 0;
  for (const auto& row : report.rows) sum += row.bytes;
  EXPECT_EQ(sum, plan.load_bytes);
  EXPECT_EQ(report.op_name,
            "ff2.dx");  // gelu's input and output and the gradient between them are there
  const std::string table = format_table(report, 3);
  EXPECT_NE(table.find("layer.1/ff2.dx"), std::string::npos) << table;
  EXPECT_NE(table.find(report.rows[0].name), std::string::npos) << table;
  EXPECT_NE(table.find("and " + std::to_string(report.rows.size() - 3) + " more"),
            std::string::npos)
      << table;
  EXPECT_EQ(peak_report({}, {}).rows.size(), 0u);
}

}  // namespace
}  // namespace snug::plan
