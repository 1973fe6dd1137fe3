// SPDX-License-Identifier: Apache-2.0
// Levers of a network of one's own: each line of the list is what planning says with these fields,
// and the fastest that fits is taken.
#include "choose/levers.h"

#include <algorithm>
#include <set>

#include "session/testing.h"
#include "snug/layers.h"
#include "snug/session.h"

namespace snug::session {
namespace {

constexpr int64_t kWidth = 128;

Network layers() {
  return {"layers", [](NetworkBuilder& b) {
            Tensor x = b.input("x", {kWidth});
            for (const char* layer : {"a", "b", "c"}) x = gelu(linear(b, layer, x, kWidth));
            b.minimize(cross_entropy(b, linear(b, "out", x, 3), b.input("label", {}, DType::i32)));
          }};
}

SessionOptions options_within(int64_t bytes) {
  return {.batch_rows = 16, .memory = parse_memory(std::to_string(bytes)), .max_grad_norm = 1};
}

int64_t smallest_budget() {
  return plan_network(layers(), options_within(int64_t{1} << 30)).smallest_budget_bytes;
}

void expect_plan(const LeverPlan& line, const SessionOptions& options) {
  const PlanReport report = plan_network(layers(), options);
  EXPECT_EQ(line.planned_peak_bytes, report.planned_peak_bytes) << to_words(line.keys);
  EXPECT_EQ(line.smallest_budget_bytes, report.smallest_budget_bytes) << to_words(line.keys);
  EXPECT_EQ(line.step_seconds, report.step_seconds) << to_words(line.keys);
}

TEST(Levers, of_a_network_are_fields) {
  const SessionOptions plain = options_within(int64_t{1} << 30);
  const std::vector<LeverPlan> lines = plan_levers(layers(), plain);
  ASSERT_FALSE(lines.empty());
  EXPECT_TRUE(lines.front().keys.empty());
  std::set<std::string> seen;
  for (const LeverPlan& line : lines) {
    EXPECT_TRUE(line.fits);
    SessionOptions options = plain;
    bool is_known = true;
    for (const auto& [key, value] : line.keys) {
      seen.insert(key);
      if (key == "bf16") {
        options.bf16 = true;
      } else if (key == "fp16") {
        options.fp16 = true;
      } else if (key == "optim_bits") {
        options.optim_bits = 8;
      } else if (key == "two_pass_clip") {
        options.two_pass_clip = value == "true";
      } else if (key == "optim") {
        options.optim = value;
      } else if (key == "max_grad_norm") {
        options.max_grad_norm = 0;
      } else if (key == "micro_batch_size") {
        options.micro_batch_size = std::stoll(value);
      } else if (key == "lora") {
        EXPECT_EQ(value, R"({"match":["a.weight", "b.weight", "c.weight", "out.weight"]})");
        options.lora.match = {"a.weight", "b.weight", "c.weight", "out.weight"};
      } else if (key == "frozen_dtype") {
        options.frozen_dtype = value;
      } else {
        is_known = false;  // words of several spellings: recompute, freeze
      }
    }
    if (is_known) expect_plan(line, options);
  }
  for (const char* key : {"bf16", "fp16", "optim_bits", "optim", "lora", "recompute"})
    EXPECT_EQ(seen.count(key), 1U) << key;
}

TEST(Levers, that_do_not_fit_are_planned_at_their_smallest_budget) {
  const int64_t smallest = smallest_budget();
  const std::vector<LeverPlan> lines = plan_levers(layers(), options_within(smallest - 1));
  EXPECT_FALSE(lines.front().fits);
  EXPECT_EQ(lines.front().smallest_budget_bytes, smallest);
  expect_plan(lines.front(), options_within(smallest));
}

TEST(Levers, are_taken_where_they_are_allowed_and_fastest) {
  const int64_t smallest = smallest_budget();
  EXPECT_TRUE(fastest_levers(layers(), options_within(smallest), {}).empty());
  const LeverKeys bits = {{"optim_bits", "8"}};
  EXPECT_EQ(fastest_levers(layers(), options_within(smallest - 1), {"adam8bit"}), bits);
  for (const int64_t budget : {smallest - 1, 2 * smallest}) {
    const LeverPlan* fastest = nullptr;
    const std::vector<std::string> allow = {"bf16", "adam8bit"};
    const std::vector<LeverPlan> lines = plan_levers(layers(), options_within(budget), allow);
    for (const LeverPlan& line : lines) {
      const bool is_allowed = std::all_of(line.keys.begin(), line.keys.end(), [](const auto& key) {
        return key.first == "bf16" || key.first == "optim_bits";
      });
      if (is_allowed && line.fits &&
          (fastest == nullptr || line.step_seconds < fastest->step_seconds))
        fastest = &line;
    }
    ASSERT_NE(fastest, nullptr);
    EXPECT_EQ(fastest_levers(layers(), options_within(budget), allow), fastest->keys);
  }
}

// Names that end like no others, too many for anybody to read.
TEST(Levers, list_no_dozens_of_weights) {
  const auto offers_adapters = [](int64_t maps) {
    const Network network("maps", [maps](NetworkBuilder& b) {
      Tensor x = b.input("x", {kWidth});
      for (int64_t i = 0; i < maps; ++i) x = linear(b, "net." + std::to_string(i), x, kWidth);
      b.minimize(cross_entropy(b, x, b.input("label", {}, DType::i32)));
    });
    const auto lines = plan_levers(network, options_within(int64_t{1} << 30));
    return std::any_of(lines.begin(), lines.end(), [](const LeverPlan& line) {
      return line.keys.size() == 1 && line.keys.front().first == "lora";
    });
  };
  EXPECT_TRUE(offers_adapters(32));
  EXPECT_FALSE(offers_adapters(33));
}

TEST(Levers, together_are_at_most_one_of_each_part) {
  const auto lever = [](const std::string& part, const std::string& value) {
    return choose::Lever{.settings = {{.words = {}, .keys = {{part, value}}, .apply = {}}},
                         .part = part};
  };
  const std::vector<choose::Lever> levers = {lever("a", "1"), lever("b", "1"), lever("a", "2")};
  const auto choices = choose::choices_among({&levers[0], &levers[1], &levers[2]});
  ASSERT_EQ(choices.size(), 6U);  // none, three alone, two together
  EXPECT_EQ(choices.front().levers, 0U);
  EXPECT_EQ(choices.back().keys, (LeverKeys{{"a", "2"}, {"b", "1"}}));
}

}  // namespace
}  // namespace snug::session
