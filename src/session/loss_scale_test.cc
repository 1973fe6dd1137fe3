// SPDX-License-Identifier: Apache-2.0
// Loss scaling through a session: what PyTorch's test_grad_scaling_* ask of GradScaler, and more. A
// scale is a power of two and exactly undone, so equal means equal bits.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "base/finite.h"
#include "ops/optimizer/optimizers.h"
#include "session/testing.h"
#include "snug/error.h"
#include "snug/layers.h"
#include "snug/session.h"

namespace snug::session {
namespace {

constexpr int64_t kRows = 8;
constexpr int64_t kWidth = 64;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A weight of 4096 elements has states in 8 bits; `tied` is used twice, so its gradient is summed.
Network plain() {
  return {"plain", [](NetworkBuilder& b) {
            Tensor x = dropout(b.input("x", {kWidth}), 0.1);
            x = gelu(linear(b, "a", x, kWidth));
            const Tensor tied = b.parameter("tied", {kWidth, kWidth}, InitRule::fan_in(kWidth));
            for (int i = 0; i < 2; ++i) x = gelu(matmul(x, tied));
            b.minimize(cross_entropy(b, linear(b, "out", layer_norm(b, "norm", x), 3),
                                     b.input("label", {}, DType::i32)));
          }};
}

Network with_statistics() {
  return {"statistics", [](NetworkBuilder& b) {
            Tensor x = linear(b, "in", b.input("x", {kWidth}), 16);
            for (const char* layer : {"a", "b"}) {
              const Scope scope(b, layer);
              x = relu(batch_norm(b, "norm", linear(b, "linear", x, 16)));
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

// `at`: the row that has it.
Data with_value(float value, int64_t at = 3) {
  Data data;
  data.x[static_cast<size_t>(at * kWidth)] = value;
  return data;
}

SessionOptions options_of(const std::string& loss_scale, int64_t micro_batch = kRows,
                          double max_grad_norm = 0) {
  return {.batch_rows = kRows,
          .memory = parse_memory("1GiB"),
          .micro_batch_size = micro_batch,
          .allow_coupled_split = true,
          .weight_decay = 0.01,
          .max_grad_norm = max_grad_norm,
          .loss_scale = loss_scale,
          .threads = 1};
}

std::string trained(const Network& network, const SessionOptions& options, int updates = 3) {
  Session session(network, options);
  for (int i = 0; i < updates; ++i) (void)session.step(Data(i).all());
  EXPECT_EQ(session.measured_arena_bytes(), session.plan().arena_bytes);
  return bytes_of(session);
}

// Clip before unscale, or unscale with another scale than was taken, changes the update.
TEST(Loss_scale, T5_the_update_is_the_same_for_every_scale_with_and_without_clipping) {
  for (const Optimizer* optimizer : optimizers()) {
    for (const int64_t micro_batch : {kRows, kRows / 4}) {
      for (const double max_grad_norm : {0.0, 0.05}) {
        for (const int64_t bits : {32, 8}) {
          if (bits == 8 && (*optimizer->name == "adafactor" || *optimizer->name == "sgd")) continue;
          SCOPED_TRACE(*optimizer->name + " " + std::to_string(micro_batch) + " " +
                       std::to_string(max_grad_norm) + " " + std::to_string(bits));
          SessionOptions options = options_of("none", micro_batch, max_grad_norm);
          options.optim = *optimizer->name;
          options.optim_bits = bits;
          const std::string wanted = trained(plain(), options);
          for (const char* scale : {"1", "256", "65536", "1e36", "dynamic"}) {
            options.loss_scale = scale;
            if (options.loss_scale == "1e36") options.loss_scale = std::to_string(0x1p100);
            EXPECT_TRUE(trained(plain(), options) == wanted) << scale;
          }
        }
      }
    }
  }
}

TEST(Loss_scale, T5_the_update_is_the_same_across_a_growth_step) {
  for (const int64_t micro_batch : {kRows, kRows / 4}) {
    for (const double max_grad_norm : {0.0, 0.05}) {
      Session scaled(plain(), options_of("dynamic", micro_batch, max_grad_norm));
      scaled.set_loss_scale({.value = 256, .clean_updates = 1998});
      std::vector<double> scales;
      for (int i = 0; i < 4; ++i) scales.push_back(scaled.step(Data(i).all()).loss_scale);
      EXPECT_EQ(scales, (std::vector<double>{256, 256, 512, 512}));
      EXPECT_TRUE(bytes_of(scaled) ==
                  trained(plain(), options_of("none", micro_batch, max_grad_norm), 4));
    }
  }
}

// The moments see gradients without the scale: where the root of v is as small as epsilon, a scale
// that stayed in would make the step up to 10 times as large.
TEST(Loss_scale, T8_a_scale_is_taken_out_before_the_moments) {
  const Network small = {"small", [](NetworkBuilder& b) {
                           const Tensor y = linear(b, "out", b.input("x", {kWidth}), 3);
                           b.minimize(1e-7 * cross_entropy(b, y, b.input("label", {}, DType::i32)));
                         }};
  SessionOptions options = options_of("none");
  options.optim_args = {{"epsilon", 1e-7}};
  const std::string wanted = trained(small, options);
  options.loss_scale = "1024";
  EXPECT_TRUE(trained(small, options) == wanted);
}

// An overflow in one of the micro-batches changes nothing but the scale.
TEST(Loss_scale, T6_an_overflow_at_any_micro_batch_leaves_every_bit) {
  for (const Network& network : {plain(), with_statistics()}) {
    for (const int64_t micro_batch : {kRows, kRows / 4}) {
      for (const float bad : {kInfinity, -kInfinity, kNan}) {
        SessionOptions options = options_of("dynamic", micro_batch, 0.5);
        options.lr_scheduler_type = ScheduleKind::linear;
        options.max_steps = 10;
        Session session(network, options);
        (void)session.step(Data(0).all());
        const std::string before = bytes_of(session);
        const StepResult skipped = session.step(with_value(bad).all());  // micro-batch 2 of 4
        EXPECT_TRUE(skipped.is_skipped);
        EXPECT_EQ(skipped.loss_scale, 65536);
        EXPECT_FALSE(std::isfinite(skipped.grad_norm));
        EXPECT_TRUE(bytes_of(session) == before);
        EXPECT_EQ(session.loss_scale().value, 32768);
        EXPECT_EQ(session.counts().drawn, 2);
        EXPECT_EQ(session.counts().schedule, 1);
        EXPECT_EQ(session.counts().optimizer, 1);
        // What follows is as if it had never been: nothing is left in a sum of gradients.
        Session other(network, options);
        (void)other.step(Data(0).all());
        other.set_counts({.drawn = 2, .schedule = 1, .optimizer = 1});
        EXPECT_EQ(session.step(Data(1).all()).learning_rate,
                  other.step(Data(1).all()).learning_rate);
        EXPECT_TRUE(bytes_of(session) == bytes_of(other));
      }
    }
  }
}

TEST(Loss_scale, an_overflow_is_an_error_where_no_scale_can_fall) {
  const auto step = [](const std::string& scale, double least) {
    SessionOptions options = options_of(scale);
    options.loss_scale_min = least;
    Session session(plain(), options);
    (void)session.step(with_value(kInfinity).all());
  };
  EXPECT_NE(refusal([&] { step("none", 0); }, ErrorCode::numeric).find("not finite"),
            std::string::npos);
  EXPECT_NE(refusal([&] { step("1024", 0); }, ErrorCode::numeric).find("a loss scale of 1024"),
            std::string::npos);
  EXPECT_NE(refusal([&] { step("dynamic", 65536); }, ErrorCode::numeric).find("scale of 65536"),
            std::string::npos);
}

TEST(Loss_scale, weights_of_an_update_that_was_not_finite_are_not_gone_on_with) {
  const std::string folder = testing::TempDir() + "not_finite";
  Session session(plain(), options_of("none"));
  (void)session.step(Data(0).all());
  session.save(folder);
  const auto overflow = [&](bool is_skipped) {
    (void)refusal(
        [&] { (void)session.step(with_value(kInfinity).all(), {.is_skipped = is_skipped}); },
        ErrorCode::numeric);
  };
  overflow(true);  // moves nothing
  (void)session.evaluate(Data(1).all());
  overflow(false);
  for (const std::function<void()>& use : std::initializer_list<std::function<void()>>{
           [&] { (void)session.step(Data(1).all()); },
           [&] { (void)session.evaluate(Data(1).all()); }, [&] { session.save(folder); }}) {
    const std::string text = refusal(use);
    EXPECT_NE(text.find("[session] its last update was not finite"), std::string::npos) << text;
  }
  // Others in their place, as resume does.
  Session other(plain(), options_of("none"));
  (void)other.step(Data(0).all());
  for (const TensorInfo& tensor : other.tensors())
    session.write(tensor.name, other.read(tensor.name));
  session.set_counts(other.counts());
  EXPECT_EQ(session.step(Data(1).all()).loss, other.step(Data(1).all()).loss);
  EXPECT_TRUE(bytes_of(session) == bytes_of(other));
}

// test_grad_scaling_unscale: found wherever it is.
TEST(Loss_scale, unscale_finds_an_infinity_or_nan_at_every_position) {
  constexpr int64_t kIn = 5;
  const Network network = {
      "one", [](NetworkBuilder& b) {
        const Tensor x = b.input("x", {kIn});
        b.minimize(b.weighted_mean(x * b.parameter("w", {kIn}, InitRule::ones())));
      }};
  SessionOptions options = options_of("dynamic");
  options.batch_rows = 1;
  options.micro_batch_size = 0;
  Session session(network, options);
  std::vector<float> x(kIn, 1);
  (void)session.step(Rows(1).add("x", std::span(x)));
  const std::string before = bytes_of(session);
  for (const float bad : {kInfinity, -kInfinity, kNan}) {
    for (size_t at = 0; at < kIn; ++at) {
      std::vector<float> one = x;
      one[at] = bad;
      session.set_loss_scale({.value = 65536});
      EXPECT_TRUE(session.step(Rows(1).add("x", std::span(one))).is_skipped) << at;
      EXPECT_TRUE(bytes_of(session) == before);
    }
  }
}

// test_grad_scaling_unscale_sparse: rows of a table that occur twice overflow only in their sum.
TEST(Loss_scale, unscale_sparse_sees_the_sum_of_rows_that_occur_twice) {
  const Network network = {"table", [](NetworkBuilder& b) {
                             const Tensor ids = b.input("id", {}, DType::i32);
                             b.minimize(b.weighted_mean(8 * embedding(b, "table", ids, 4, 2)));
                           }};
  SessionOptions options = options_of("dynamic");
  options.batch_rows = 2;
  options.micro_batch_size = 2;
  for (const bool is_twice : {false, true}) {
    Session session(network, options);
    session.set_loss_scale({.value = 0x1p126});  // 2^127 for each use of an element
    const std::vector<int32_t> ids = {1, is_twice ? 1 : 2};
    EXPECT_EQ(session.step(Rows(2).add("id", std::span(ids))).is_skipped, is_twice);
  }
}

// test_grad_scaling_*: run_scaling_case. Four updates, the second with an infinity; a scale of 128
// that grows behind every update: three times up, once down, and the weights of a run without
// scaling that leaves the second out.
void run_scaling_case(int64_t micro_batch, double max_grad_norm, bool measures_first) {
  SessionOptions options = options_of("dynamic", micro_batch, max_grad_norm);
  options.optim = "sgd";
  Session scaled(plain(), options);
  options.loss_scale = "none";
  Session plain_run(plain(), options);
  scaled.set_loss_scale({.value = 128, .clean_updates = 1999});
  for (int i = 0; i < 4; ++i) {
    const Data data = i == 1 ? with_value(kInfinity) : Data(i);
    if (measures_first && i != 1) {
      EXPECT_GT(scaled.step(data.all(), {.is_skipped = true}).grad_norm, 0);
    }
    const StepResult result = scaled.step(data.all());
    EXPECT_EQ(result.is_skipped, i == 1);
    scaled.set_loss_scale({.value = scaled.loss_scale().value, .clean_updates = 1999});
    if (i == 1) {
      plain_run.set_counts({.drawn = 2, .schedule = 1, .optimizer = 1});
      continue;
    }
    const StepResult wanted = plain_run.step(data.all());
    EXPECT_EQ(result.loss, wanted.loss);
    EXPECT_EQ(result.grad_norm, wanted.grad_norm);
  }
  EXPECT_EQ(scaled.loss_scale().value, 128 * std::pow(2.0, 3) * std::pow(0.5, 1));
  EXPECT_TRUE(bytes_of(scaled) == bytes_of(plain_run));
}
TEST(Loss_scale, run_scaling_case) { run_scaling_case(kRows, 0, false); }
TEST(Loss_scale, clipping) { run_scaling_case(kRows, 0.2, false); }
TEST(Loss_scale, clipping_separate_unscale) { run_scaling_case(kRows, 0.2, true); }
TEST(Loss_scale, accumulation) { run_scaling_case(kRows / 2, 0.2, false); }
// test_grad_scaling_penalty: a term of the loss that is made of weights has the same scale.
TEST(Loss_scale, penalty) {
  const Network network = {
      "penalty", [](NetworkBuilder& b) {
        const Tensor w = b.parameter("w", {kWidth}, InitRule::ones());
        const Tensor y = b.input("x", {kWidth}) * w;
        const Tensor label = b.input("label", {}, DType::i32);
        b.minimize(cross_entropy(b, linear(b, "out", y, 3), label) + 0.1 * b.weighted_mean(y * y));
      }};
  EXPECT_TRUE(trained(network, options_of("65536", kRows, 0.1)) ==
              trained(network, options_of("none", kRows, 0.1)));
}
// test_grad_scaling_multiple: two losses with a scale of their own sessions, side by side.
TEST(Loss_scale, multiple) {
  Session first(plain(), options_of("dynamic"));
  Session second(with_statistics(), options_of("dynamic"));
  EXPECT_TRUE(first.step(with_value(kNan).all()).is_skipped);
  EXPECT_FALSE(second.step(Data().all()).is_skipped);
  EXPECT_EQ(first.loss_scale().value, 32768);
  EXPECT_EQ(second.loss_scale().value, 65536);
}

// test_grad_scaling_state_dict.
TEST(Loss_scale, state_round_trip) {
  std::string folder = (std::filesystem::temp_directory_path() / "snug_scale_XXXXXX").string();
  folder = mkdtemp(folder.data());
  const std::string saved = folder + "/saved";
  SessionOptions options = options_of("dynamic_paddle", kRows / 2, 0.5);
  Session whole(plain(), options);
  (void)whole.step(Data().all());
  (void)whole.step(with_value(kNan).all());
  EXPECT_EQ(whole.loss_scale().overflows, 1);
  whole.save(saved);
  Session resumed = Session::resume(plain(), saved, options);
  for (Session* session : {&whole, &resumed}) {
    EXPECT_TRUE(session->step(with_value(kNan).all()).is_skipped);
    EXPECT_EQ(session->loss_scale().value, static_cast<double>(static_cast<float>(32768 * 0.8)));
    (void)session->step(Data(4).all());
    EXPECT_EQ(session->loss_scale().clean_updates, 1);
    EXPECT_EQ(session->counts().drawn - session->counts().optimizer, 2);
  }
  EXPECT_TRUE(bytes_of(resumed) == bytes_of(whole));
  options.loss_scale = "dynamic";
  EXPECT_NE(refusal([&] { (void)Session::resume(plain(), saved, options); }).find("loss_scale"),
            std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(Loss_scale, a_state_that_no_scale_has_is_refused) {
  Session session(plain(), options_of("dynamic"));
  for (const LossScale& bad :
       {LossScale{.value = 0}, LossScale{.value = -1}, LossScale{.value = 1e300},
        LossScale{.value = 1, .clean_updates = -1}, LossScale{.value = 1, .overflows = -1}})
    EXPECT_NE(refusal([&] { session.set_loss_scale(bad); }).find("loss_scale"), std::string::npos);
  Session constant(plain(), options_of("64"));
  EXPECT_NE(refusal([&] { constant.set_loss_scale({.value = 1}); }).find("never changes"),
            std::string::npos);
}

TEST(Loss_scale, gradients_alone_are_without_it) {
  SessionOptions options = options_of("none", kRows / 2);
  options.weight_decay = 0;
  options.only_gradients = true;
  const GradientResult wanted = Session(plain(), options).gradients(Data().all());
  options.loss_scale = "4096";
  const GradientResult scaled = Session(plain(), options).gradients(Data().all());
  EXPECT_EQ(scaled.loss, wanted.loss);
  EXPECT_EQ(scaled.of, wanted.of);
}

// One weight, whose gradient is the mean of x.
Network mean_times_weight() {
  return {"one", [](NetworkBuilder& b) {
            const Tensor x = b.input("x", {kWidth});
            b.minimize(b.weighted_mean(x * b.parameter("w", {kWidth}, InitRule::ones())));
          }};
}

// A caller with an optimizer of their own sees no number that is not finite.
TEST(Loss_scale, falls_until_gradients_are_finite) {
  SessionOptions options = options_of("dynamic", kRows / 2);
  options.only_gradients = true;
  Session session(mean_times_weight(), options);
  const std::vector<float> x(kRows * kWidth, 1e4F);
  Rows rows(kRows);
  rows.add("x", std::span(x));
  const GradientResult wanted = session.gradients(rows);
  EXPECT_EQ(session.loss_scale().value, 65536);
  EXPECT_EQ(session.loss_scale().clean_updates, 1);
  session.set_loss_scale({.value = 0x1p127});
  const GradientResult found = session.gradients(rows);
  EXPECT_LT(session.loss_scale().value, 0x1p127);
  EXPECT_EQ(found.of, wanted.of);  // and nothing is left of the runs before
  EXPECT_EQ(first_not_finite(found.of.at("w")), -1);

  for (const char* scale : {"none", "dynamic", "64"}) {
    options.loss_scale = scale;
    Session other(plain(), options);
    const GradientResult before = other.gradients(Data().all());
    for (const float value : {kNan, kInfinity})
      (void)refusal([&] { (void)other.gradients(with_value(value).all()); }, ErrorCode::numeric);
    EXPECT_EQ(other.gradients(Data().all()).of, before.of) << scale;
  }
  // Where the scale is the least, or does not change.
  for (const bool is_dynamic : {true, false}) {
    options.loss_scale = is_dynamic ? "dynamic" : std::to_string(0x1p126);
    options.loss_scale_min = is_dynamic ? 65536 : 0;
    Session other(mean_times_weight(), options);
    const std::vector<float> large(kRows * kWidth, is_dynamic ? 1e36F : 1e4F);
    Rows many(kRows);
    many.add("x", std::span(large));
    const std::string text = refusal([&] { (void)other.gradients(many); }, ErrorCode::numeric);
    EXPECT_NE(text.find("that of 'w'"), std::string::npos) << text;
  }
}

// Every gradient is finite, and the scale so large that their squares are not.
TEST(Loss_scale, squares_of_scaled_gradients_do_not_overflow) {
  Session session(mean_times_weight(), options_of("dynamic", kRows, 1));
  const std::vector<float> x(kRows * kWidth, 1e4F);
  Rows rows(kRows);
  rows.add("x", std::span(x));
  session.set_loss_scale({.value = 0x1p110});
  EXPECT_FALSE(session.step(rows).is_skipped);
  session.set_loss_scale({.value = 0x1p127});  // here they overflow themselves
  EXPECT_TRUE(session.step(rows).is_skipped);
}

}  // namespace
}  // namespace snug::session
