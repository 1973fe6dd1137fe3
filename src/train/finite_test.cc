// SPDX-License-Identifier: Apache-2.0
#include "session/finite.h"

#include <gtest/gtest.h>

#include <limits>

#include "snug/error.h"
#include "train/state.h"
#include "train/testing.h"

namespace snug::train {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Finite, the_first_element_is_found_wherever_it_is) {
  std::vector<float> values(10000, -std::numeric_limits<float>::max());
  values[17] = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(first_not_finite(values), -1);
  EXPECT_EQ(first_not_finite(std::span<const float>()), -1);
  for (const float bad : {kInfinity, -kInfinity, kNan, -kNan}) {
    for (const size_t at : {size_t{9999}, size_t{4096}, size_t{4095}, size_t{0}}) {
      std::vector<float> copy = values;
      copy[at] = bad;
      EXPECT_EQ(first_not_finite(copy), static_cast<int64_t>(at));
    }
  }
}

TEST(Finite, other_types_than_f32_are_looked_at_too) {
  const std::vector<Bf16> bf16 = {to_bf16(3e38F), to_bf16(-kInfinity)};
  const std::vector<F16> f16 = {to_f16(65504), to_f16(1), to_f16(kNan)};
  const std::vector<double> f64 = {1e308, static_cast<double>(-kNan)};
  EXPECT_EQ(first_not_finite(std::span<const Bf16>(bf16)), 1);
  EXPECT_EQ(first_not_finite(std::span<const F16>(f16)), 2);
  EXPECT_EQ(first_not_finite(std::span<const double>(f64)), 1);
  EXPECT_EQ((NotFinite{.name = "w", .element = 1, .value = f64[1]}.text()),
            "'w' is nan at element 1");
}

TEST(Finite, weights_and_optimizer_states_are_looked_at_by_name) {
  const auto backend = cpu();
  TestRun run(*backend, "none", 4, 4);
  run.initialize_cpu();
  EXPECT_FALSE(session::find_not_finite(*run.engine).has_value());
  for (const char* name : {"classifier.bias", "v.classifier.bias", "m.bert.pooler.dense.weight"}) {
    float& element = run.engine->edit<float>(name)[1];
    const float before = element;
    element = kInfinity;
    const std::optional<NotFinite> found = session::find_not_finite(*run.engine);
    ASSERT_TRUE(found.has_value()) << name;
    EXPECT_EQ(found->text(), "'" + std::string(name) + "' is inf at element 1");
    element = before;
  }
}

TEST(Train_state, reads_back_and_refuses_every_field_that_is_out_of_range) {
  RunState state;
  state.step = 3;
  state.batch = 3;
  state.micro_batch = 4;
  state.best_metric = 0.5;
  state.validation_hash = 7;
  state.owes_evaluation = true;
  state.config_json = "{}";
  const std::string text = state.to_json();
  EXPECT_EQ(RunState::from_json(text, "s").to_json(), text);
  EXPECT_TRUE(RunState::from_json(text, "s").owes_evaluation);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string copy = text;
    const size_t at = copy.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return copy.replace(at, from.size(), to);
  };
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"global_step\": 3", "\"global_step\": -3"},
           {"\"global_step\": 3", "\"global_step\": 1000000000000001"},
           {"\"batch\": 3", "\"batch\": -1"},
           {"\"micro_batch\": 4", "\"micro_batch\": 0"},
           {"\"micro_batch\": 4", "\"micro_batch\": 16777217"},
           {"\"validation_rows_hash\": \"7\"", "\"validation_rows_hash\": \"-7\""},
           {"\"validation_rows_hash\": \"7\"", "\"validation_rows_hash\": \"7 \""},
           {"\"metrics_bytes\": 0", "\"metrics_bytes\": -1"}}) {
    EXPECT_THROW((void)RunState::from_json(with(from, to), "s"), Error) << to;
  }
}

}  // namespace
}  // namespace snug::train
