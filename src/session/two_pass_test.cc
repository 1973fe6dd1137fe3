// SPDX-License-Identifier: Apache-2.0
// An update that goes forward and backward twice, first for the norm of its gradients, has the bits
// of one whose gradients wait for it, in fewer bytes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ops/optimizer/optimizers.h"
#include "session/testing.h"
#include "snug/error.h"
#include "snug/layers.h"
#include "snug/session.h"

namespace snug::session {
namespace {

constexpr int64_t kRows = 8;
constexpr int64_t kWidth = 64;

// Layers whose weights are larger than their activations; one weight is used twice.
Network plain() {
  return {"plain", [](NetworkBuilder& b) {
            Tensor x = dropout(b.input("x", {kWidth}), 0.1);
            for (const char* layer : {"a", "b", "c", "d"}) x = gelu(linear(b, layer, x, kWidth));
            const Tensor tied = b.parameter("tied", {kWidth, kWidth}, InitRule::fan_in(kWidth));
            for (int i = 0; i < 2; ++i) x = gelu(matmul(x, tied));
            b.minimize(cross_entropy(b, linear(b, "out", layer_norm(b, "norm", x), 3),
                                     b.input("label", {}, DType::i32)));
          }};
}

Network with_statistics() {
  return {"statistics", [](NetworkBuilder& b) {
            Tensor x = b.input("x", {kWidth});
            for (const char* layer : {"a", "b", "c"}) {
              const Scope scope(b, layer);
              x = relu(batch_norm(b, "norm", linear(b, "linear", x, kWidth)));
            }
            b.minimize(cross_entropy(b, linear(b, "out", x, 3), b.input("label", {}, DType::i32)));
          }};
}

struct Data {
  std::vector<float> x;
  std::vector<int32_t> label;
  explicit Data(int seed = 0) {
    for (int64_t i = 0; i < kRows * kWidth; ++i)
      x.push_back(static_cast<float>(std::sin(1.3 * static_cast<double>(i + 1000 * seed))));
    for (int64_t row = 0; row < kRows; ++row) label.push_back(static_cast<int32_t>(row % 3));
  }
  [[nodiscard]] Rows all() const {
    Rows rows(kRows);
    rows.add("x", std::span(x)).add("label", std::span(label));
    return rows;
  }
};

SessionOptions options_of(std::optional<bool> two_pass_clip, double max_grad_norm = 0.05) {
  return {.batch_rows = kRows,
          .memory = parse_memory("1GiB"),
          .micro_batch_size = kRows,
          .two_pass_clip = two_pass_clip,
          .weight_decay = 0.01,
          .max_grad_norm = max_grad_norm,
          .threads = 1};
}

struct Trained {
  std::string bytes;
  std::vector<double> losses, norms;
  bool operator==(const Trained&) const = default;
};
Trained trained(const Network& network, const SessionOptions& options) {
  Session session(network, options);
  session.set_poisoning(options.seed % 2 != 0);
  Trained found;
  for (int i = 0; i < 3; ++i) {
    const StepResult result = session.step(Data(i).all());
    found.losses.push_back(result.loss);
    found.norms.push_back(result.grad_norm);
  }
  if (options.seed % 2 == 0) {
    EXPECT_EQ(session.measured_arena_bytes(), session.plan().arena_bytes);
  }
  EXPECT_EQ(session.plan().two_pass_clip, options.two_pass_clip.value_or(false));
  found.bytes = bytes_of(session);
  return found;
}

TEST(Two_pass_clip, has_the_bits_of_one_pass) {
  for (const Optimizer* optimizer : optimizers()) {
    for (const int64_t bits : {32, 8}) {
      if (bits == 8 && (*optimizer->name == "adafactor" || *optimizer->name == "sgd")) continue;
      for (const char* scale : {"none", "1024", "dynamic"}) {
        for (const Network& network : {plain(), with_statistics()}) {
          SCOPED_TRACE(*optimizer->name + " " + std::to_string(bits) + " " + scale);
          SessionOptions options = options_of(false);
          options.optim = *optimizer->name;
          options.optim_bits = bits;
          options.loss_scale = scale;
          options.seed = 2;
          const Trained wanted = trained(network, options);
          EXPECT_GT(wanted.norms[0], options.max_grad_norm);
          options.two_pass_clip = true;
          EXPECT_TRUE(trained(network, options) == wanted);
        }
      }
    }
  }
}

TEST(Two_pass_clip, reads_no_dead_byte) {
  for (const Network& network : {plain(), with_statistics()}) {
    SessionOptions options = options_of(false);
    options.seed = 3;
    const Trained wanted = trained(network, options);
    options.two_pass_clip = true;
    EXPECT_TRUE(trained(network, options) == wanted);
  }
}

// The budget picks the form, and a run goes on in the other; more memory is never slower.
TEST(Two_pass_clip, is_taken_where_the_budget_asks_for_it_and_resumed_in_the_other_form) {
  const PlanReport one = plan_network(plain(), options_of(false));
  const PlanReport two = plan_network(plain(), options_of(true));
  const PlanReport best = plan_network(plain(), options_of({}));
  EXPECT_FALSE(best.two_pass_clip);
  EXPECT_EQ(best.smallest_budget_bytes, two.smallest_budget_bytes);
  EXPECT_EQ(best.step_seconds, one.step_seconds);
  ASSERT_LT(two.smallest_budget_bytes, one.smallest_budget_bytes);
  EXPECT_GT(two.step_seconds, one.step_seconds);
  EXPECT_LT(two.step_seconds, 2 * one.step_seconds);  // steps run once
  EXPECT_GE(two.dying_gradient_bytes, 4 * kWidth * kWidth * 4);
  EXPECT_NE(two.to_text().find("forward and backward run twice"), std::string::npos);
  EXPECT_NE(two.to_json().find("\"two_pass_clip\": true"), std::string::npos);

  std::string folder = (std::filesystem::temp_directory_path() / "snug_two_XXXXXX").string();
  folder = mkdtemp(folder.data());
  SessionOptions tight = options_of({});
  tight.memory.bytes = two.smallest_budget_bytes;
  const SessionOptions wide = options_of({});
  Session whole(plain(), wide);
  for (int i = 0; i < 4; ++i) (void)whole.step(Data(i).all());
  for (const auto& [first, second] : {std::pair{tight, wide}, std::pair{wide, tight}}) {
    Session begun(plain(), first);
    for (int i = 0; i < 2; ++i) (void)begun.step(Data(i).all());
    begun.save(folder + "/saved");
    Session resumed = Session::resume(plain(), folder + "/saved", second);
    EXPECT_NE(begun.plan().two_pass_clip, resumed.plan().two_pass_clip);
    for (int i = 2; i < 4; ++i) (void)resumed.step(Data(i).all());
    EXPECT_TRUE(bytes_of(resumed) == bytes_of(whole));
  }
  double last = std::numeric_limits<double>::infinity();
  for (int64_t bytes = two.smallest_budget_bytes; bytes < one.planned_peak_bytes + 8192;
       bytes += 4096) {
    SessionOptions options = options_of({});
    options.memory.bytes = bytes;
    const PlanReport report = plan_network(plain(), options);
    EXPECT_LE(report.planned_peak_bytes, bytes);
    EXPECT_LE(report.step_seconds, last);
    last = report.step_seconds;
  }
  std::filesystem::remove_all(folder);
}

TEST(Two_pass_clip, a_saved_plan_has_its_form) {
  std::string folder = (std::filesystem::temp_directory_path() / "snug_two_XXXXXX").string();
  folder = mkdtemp(folder.data());
  for (const bool is_two : {true, false}) {
    const std::string file = folder + "/plan.json";
    SessionPlan(plain(), options_of(is_two)).save(file);
    SessionOptions options = options_of({});
    options.plan_file = file;
    EXPECT_EQ(plan_network(plain(), options).two_pass_clip, is_two);
    options.two_pass_clip = !is_two;
    EXPECT_NE(refusal([&] { (void)plan_network(plain(), options); }).find("two_pass_clip"),
              std::string::npos);
  }
  std::filesystem::remove_all(folder);
}

// Nothing moves, and there is no second pass.
TEST(Two_pass_clip, an_overflow_or_a_measurement_leaves_every_bit) {
  for (const Network& network : {plain(), with_statistics()}) {
    SessionOptions options = options_of(true);
    options.loss_scale = "dynamic";
    Session session(network, options);
    (void)session.step(Data(0).all());
    const std::string before = bytes_of(session);
    EXPECT_GT(session.step(Data(1).all(), {.is_skipped = true}).grad_norm, 0);
    EXPECT_TRUE(bytes_of(session) == before);
    Data bad(1);
    bad.x[100] = std::numeric_limits<float>::infinity();
    EXPECT_TRUE(session.step(bad.all()).is_skipped);
    EXPECT_TRUE(bytes_of(session) == before);
    EXPECT_EQ(session.loss_scale().value, 32768);
  }
}

TEST(Two_pass_clip, is_refused_where_it_has_no_meaning) {
  EXPECT_NE(refusal([] { (void)plan_network(plain(), options_of(true, 0)); }).find("max_grad_norm"),
            std::string::npos);
  SessionOptions split = options_of(true);
  split.micro_batch_size = 4;
  EXPECT_NE(refusal([&] { (void)plan_network(plain(), split); }).find("one micro-batch"),
            std::string::npos);
  EXPECT_FALSE(plan_network(plain(), options_of({}, 0)).two_pass_clip);
}

TEST(Two_pass_clip, a_refusal_names_it_where_it_would_fit) {
  SessionOptions options = options_of(false);
  options.memory.bytes = plan_network(plain(), options_of(true)).smallest_budget_bytes;
  const std::string text =
      refusal([&] { (void)plan_network(plain(), options); }, ErrorCode::out_of_budget);
  EXPECT_NE(text.find("two_pass_clip = true"), std::string::npos) << text;
}

// Update in backward needs no second pass where nothing waits, and says what it saves.
TEST(Two_pass_clip, a_plan_without_a_norm_says_what_its_updates_save) {
  const PlanReport plan = plan_network(plain(), options_of({}, 0));
  EXPECT_GE(plan.dying_gradient_bytes, 4 * kWidth * kWidth * 4);
  EXPECT_NE(plan.to_text().find("die in their updates"), std::string::npos);
  EXPECT_EQ(plan_network(plain(), options_of(false)).dying_gradient_bytes, 0);
}

}  // namespace
}  // namespace snug::session
