// SPDX-License-Identifier: Apache-2.0
// What the table and the page say, from a report made by hand.
#include <gtest/gtest.h>

#include <string>

#include "snug/plan_report.h"

namespace snug::report {
namespace {

PlanReport report() {
  PlanReport report;
  report.model = "m";
  report.budget_bytes = 100 << 20;
  report.planned_peak_bytes = (61 << 20) + 4096;
  report.smallest_budget_bytes = (61 << 20) + 4096;
  report.keep_all_peak_bytes = 80 << 20;
  report.keep_all_micro_batch = 32;
  report.train_batch_size = 32;
  report.max_length = 128;
  report.micro_batch = 8;
  report.accumulation_steps = 4;
  report.strategy = "budget";
  report.step_seconds = 1;
  report.recompute_overhead = 0.25;
  report.peak_op = "layer.0/matmul";
  report.components = {{"weights", 40 << 20}, {"process", 21 << 20}};
  report.peak_tensors = {{"a", 3000}, {"b", 2000}};
  report.blocks = {{.first = "layer.0",
                    .last = "layer.1",
                    .count = 2,
                    .keep_all_bytes = 2048,
                    .kept_bytes = 1024,
                    .forward_seconds = 1,
                    .recompute_seconds = 0.5,
                    .recomputed = {"matmul"},
                    .kept = {"gelu"}},
                   {.first = "loss",
                    .last = "loss",
                    .count = 1,
                    .keep_all_bytes = 128,
                    .kept_bytes = 128,
                    .forward_seconds = 1,
                    .recompute_seconds = 0,
                    .recomputed = {},
                    .kept = {"softmax_cross_entropy"}}};
  report.prices = {{.budget_bytes = (61 << 20) + 4096,
                    .step_seconds = 1,
                    .micro_batch = 8,
                    .strategy = "budget",
                    .is_chosen = true}};
  report.curves = {{"keep-all", {0.5, 1}, {10, 20}}, {"this plan", {0.5, 1}, {10, 20}}};
  return report;
}

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST(Plan_report, says_how_many_ops_run_again) {
  PlanReport plan = report();
  EXPECT_EQ(plan.to_text().find("  run again   "), std::string::npos);
  plan.strategy = "marks:a;b";
  expect_in(plan.to_text(), "  run again   nothing: so this strategy saves nothing here\n");
  plan.ops_run_again = 1;
  expect_in(plan.to_text(), "  run again   1 op a micro-batch\n");
  plan.ops_run_again = 7;
  expect_in(plan.to_text(), "  run again   7 ops a micro-batch\n");
  expect_in(plan.to_json(), "\"ops_run_again\": 7");
}

TEST(PlanText, budgets_are_rounded_up) {
  const std::string text = report().to_text();
  expect_in(text, "smallest budget           61.1 MiB\n");
  expect_in(text, "=>     61.1 MiB");
}

TEST(PlanText, a_share_has_its_sign) {
  PlanReport plan = report();
  expect_in(plan.to_text(), "budget: +25.0 % time (in these bytes at least +0.0 %)");
  plan.recompute_overhead = -0.0003;
  expect_in(plan.to_text(), "budget: +0.0 % time");
  expect_in(plan.to_html(), "(+0.0 % against keeping everything; no schedule");
  plan.recompute_overhead = -0.012;
  expect_in(plan.to_text(), "budget: -1.2 % time");
}

TEST(PlanText, the_step_has_its_uncertainty) {
  PlanReport with = report();
  with.step_seconds = 0.42;
  with.step_seconds_uncertainty = 0.08;
  expect_in(with.to_text(), " \u00b1 8 % predicted");
  expect_in(with.to_json(), "\"step_seconds_uncertainty\": 0.08");
}

TEST(PlanText, the_step_has_its_instruction_set) {
  PlanReport with = report();
  with.instruction_set = "avx512_bf16";
  expect_in(with.to_text(), " % predicted (avx512_bf16)");
  expect_in(with.to_json(), "\"instruction_set\": \"avx512_bf16\"");
}

TEST(PlanText, keep_all_says_which_split_it_means) {
  expect_in(report().to_text(), "80.0 MiB  (in one piece, nothing recomputed)\n");
  PlanReport split = report();
  split.keep_all_micro_batch = 8;
  expect_in(split.to_text(), "80.0 MiB  (micro-batches of 8, nothing recomputed)\n");
}

TEST(PlanText, prices_that_print_the_same_budget_are_one_and_no_zero_has_a_minus) {
  PlanReport plan = report();
  const int64_t bytes = 200 << 20;
  plan.prices = {
      {.budget_bytes = bytes + 4096, .step_seconds = 1.2, .strategy = "slow"},
      {.budget_bytes = bytes + 8192, .step_seconds = 1.1, .strategy = "fast"},
      {.budget_bytes = 2 * bytes + 4096, .step_seconds = 1, .strategy = "own", .is_chosen = true},
      {.budget_bytes = 2 * bytes + 8192, .step_seconds = 0.99, .strategy = "next"},
      {.budget_bytes = 3 * bytes, .step_seconds = 0.998, .strategy = "last"}};
  const std::string text = plan.to_text();
  const std::string list = text.substr(text.find("price list"));
  for (const char* strategy : {"fast", "own", "last"}) expect_in(list, strategy);
  for (const char* strategy : {"slow", "next"})
    EXPECT_EQ(list.find(strategy), std::string::npos) << list;
  EXPECT_EQ(text.find("-0 %"), std::string::npos) << text;
  expect_in(list, "+0 %");
}

TEST(PlanText, lines_fit_eighty_columns) {
  const std::string text = report().to_text();
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    const bool is_ascii = line.find("·") == std::string::npos;  // no bar
    EXPECT_TRUE(!is_ascii || line.size() <= 80) << line;
    begin = end + 1;
  }
}

TEST(PlanPage, one_price_or_none_divides_nothing_by_zero) {
  PlanReport plan = report();
  for (const double seconds : {0.0, 1e-9, 1.0, 1e9}) {
    plan.step_seconds = seconds;
    for (PriceRow& price : plan.prices) price.step_seconds = seconds;
    const std::string page = plan.to_html();
    for (const char* number : {"nan", "inf\"", "=inf", "=-"})
      EXPECT_EQ(page.find(number), std::string::npos) << number << " at " << seconds << "\n"
                                                      << page;
    expect_in(page, ">60 MiB</text>");
  }
  plan.prices.clear();
  plan.curves.clear();
  plan.blocks = {BlockTreatment()};
  const std::string page = plan.to_html();
  EXPECT_EQ(page.find("nan"), std::string::npos) << page;
  EXPECT_EQ(page.find("Price list"), std::string::npos) << page;
}

TEST(PlanPage, tables_have_totals_and_a_covered_curve_is_said) {
  PlanReport plan = report();
  const std::string page = plan.to_html();
  expect_in(page, "<tr class=total><td>planned peak<td class=number>61.1 MiB</tr>");
  expect_in(page, "<tr class=total><td>together<td class=number>4.88 KiB</tr>");
  // Two layers of 1024 and 2048 bytes and the loss's 128: half of two thirds of the time again.
  expect_in(page,
            "<tr class=total><td>all<td class=number>2.12 KiB<td class=number>4.12 KiB<td "
            "class=number>33 %");
  expect_in(page, "keeps everything, so it is the curve of keeping everything as well");
  plan.curves[1].bytes = {10, 15};
  EXPECT_EQ(plan.to_html().find("keeps everything"), std::string::npos);
  // A label at the edge ends where the drawing ends.
  expect_in(page, ".xlast{font-size:11px;fill:#5b6b80;text-anchor:end}");
}

}  // namespace
}  // namespace snug::report
