// SPDX-License-Identifier: Apache-2.0
// What an explanation says of an update: all of its time, each op against the machine's limits,
// what runs as one kernel and why the rest does not.
#include "snug/explain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "session/testing.h"
#include "snug/layers.h"
#include "snug/ops.h"

namespace snug::session {
namespace {

constexpr int64_t kRows = 64;
constexpr int64_t kWidth = 256;

// Ops by rows between products.
Network network_of() {
  return {"layers", [](NetworkBuilder& b) {
            Tensor x = b.input("x", {kWidth});
            for (int i = 0; i < 2; ++i) {
              const Scope scope(b, "layer." + std::to_string(i));
              x = x + dropout(gelu(linear(b, "dense", x, kWidth)), 0.1);
            }
            b.minimize(mean_squared_error(b, linear(b, "out", x, 1), b.input("t", {1})));
          }};
}

SessionOptions options_of() {
  return {.batch_rows = kRows, .memory = parse_memory("64MiB"), .threads = 1};
}

int64_t runs_of(const std::vector<OpTime>& step, const std::string& op) {
  int64_t runs = 0;
  for (const OpTime& each : step) runs += each.op == op ? each.runs : 0;
  return runs;
}

TEST(Explain, the_time_of_all_ops_is_that_of_the_plan) {
  SessionOptions whole = options_of();
  whole.micro_batch_size = kRows;
  SessionOptions pieces = options_of();
  pieces.micro_batch_size = kRows / 4;
  pieces.max_grad_norm = 1;
  SessionOptions twice = whole;
  twice.max_grad_norm = 1;
  twice.two_pass_clip = true;
  SessionOptions apart = whole;
  apart.fusion = "off";
  SessionOptions again = whole;
  again.recompute = "recompute-all";
  for (const SessionOptions& options : {whole, pieces, twice, apart, again}) {
    const Explanation explained = explain_network(network_of(), options);
    const PlanReport planned = plan_network(network_of(), options);
    double seconds = 0;
    for (const OpTime& each : explained.step) {
      seconds += each.seconds;
      EXPECT_GT(each.runs, 0) << each.op;
      EXPECT_GE(each.limit_seconds, 0) << each.op;
    }
    EXPECT_NEAR(seconds, planned.step_seconds, 1e-9 * planned.step_seconds);
    EXPECT_TRUE(
        std::is_sorted(explained.step.begin(), explained.step.end(),
                       [](const OpTime& a, const OpTime& b) { return a.seconds > b.seconds; }));
    int64_t in_programs = 0;
    for (const MergedOps& each : explained.merged)
      in_programs += each.ops.size() > 1 ? each.runs : 0;
    const int64_t runs = planned.two_pass_clip ? 2 : planned.accumulation_steps;
    EXPECT_EQ(in_programs, runs * planned.row_program_ops);
  }
}

TEST(Explain, ops_count_as_often_as_they_run_in_an_update) {
  SessionOptions options = options_of();
  options.micro_batch_size = kRows / 4;
  options.optim = "sgd";
  options.max_grad_norm = 1;
  const Explanation explained = explain_network(network_of(), options);
  EXPECT_EQ(runs_of(explained.step, "sgd_step") + runs_of(explained.step, "sgd"), 6);
  const auto product = std::find_if(explained.step.begin(), explained.step.end(),
                                    [](const OpTime& each) { return each.flops > 1e7; });
  ASSERT_NE(product, explained.step.end());
  EXPECT_EQ(product->runs % 4, 0);
}

TEST(Explain, what_runs_together_saves_the_bytes_that_are_handed_on) {
  const Explanation explained = explain_network(network_of(), options_of());
  ASSERT_FALSE(explained.merged.empty());
  const MergedOps& most = explained.merged.front();
  // At the least what one op of them makes for the next is neither written nor read.
  EXPECT_GE(most.saved_bytes, static_cast<double>(most.kernels) * 2 * kRows * kWidth * 4 - 1);
  EXPECT_EQ(most.first.substr(0, 6), "layer.");
  SessionOptions off = options_of();
  off.fusion = "off";
  const Explanation apart = explain_network(network_of(), off);
  EXPECT_TRUE(apart.merged.empty());
  ASSERT_FALSE(apart.apart.empty());
  for (const ApartOps& each : apart.apart) EXPECT_EQ(each.reason, "fusion is off") << each.op;
}

TEST(Explain, why_an_op_runs_by_itself_is_said) {
  SessionOptions options = options_of();
  options.fusion_overrides = {{"*.gelu", "off"}};
  const Explanation explained = explain_network(network_of(), options);
  const auto has = [&](const std::string& op, const std::string& reason) {
    return std::any_of(explained.apart.begin(), explained.apart.end(), [&](const ApartOps& each) {
      return each.op.find(op) != std::string::npos && each.reason == reason;
    });
  };
  EXPECT_TRUE(has("gelu", "fusion_overrides: '*.gelu' is off")) << explained.to_text();
  EXPECT_FALSE(has("dropout", "fusion_overrides: '*.gelu' is off"));
}

TEST(Explain, what_could_follow_a_product_is_said_with_the_level_of_the_product) {
  const auto reasons = [](const SessionOptions& options) {
    std::set<std::string> found;
    for (const ApartOps& each : explain_network(network_of(), options).apart)
      found.insert(each.reason);
    return found;
  };
  SessionOptions options = options_of();
  EXPECT_EQ(reasons(options).count("fusion is fusible, for matmul"), 0u);
  options.fusion = "fusible";
  EXPECT_EQ(reasons(options).count("fusion is fusible, for matmul"), 1u);
  options.fusion = "full";
  options.fusion_overrides = {{"*.matmul", "fusible"}};
  EXPECT_EQ(reasons(options).count("fusion_overrides: '*.matmul' is fusible, for matmul"), 1u);
}

TEST(Explain, text_and_json_say_the_same) {
  const Explanation explained = explain_network(network_of(), options_of());
  const auto json = nlohmann::json::parse(explained.to_json());
  EXPECT_EQ(json["step"]["ops"].size(), explained.step.size());
  EXPECT_EQ(json["step"]["ops"][0]["op"], explained.step[0].op);
  EXPECT_EQ(json["fusion"]["merged"].size(), explained.merged.size());
  EXPECT_EQ(json["fusion"]["apart"].size(), explained.apart.size());
  const std::string text = explained.to_text();
  for (const char* part : {"time, op by op: ", "merged: ", " of memory traffic", "limit"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_NE(text.find(explained.step[0].op), std::string::npos);
}

TEST(Explain, an_evaluation_has_its_own_ops) {
  SessionOptions options = options_of();
  options.only_evaluation = true;
  const Explanation explained = explain_network(network_of(), options);
  EXPECT_EQ(runs_of(explained.step, "dropout"), 0);
  EXPECT_FALSE(explained.step.empty());
}

}  // namespace
}  // namespace snug::session
