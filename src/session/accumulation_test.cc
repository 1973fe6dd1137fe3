// SPDX-License-Identifier: Apache-2.0
// The known ways in which gradient accumulation goes wrong (docs/traps.md): whatever the split, a
// batch has the loss and the gradients of its weighted mean as one piece, one clip, one step of the
// schedule.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "session/testing.h"
#include "snug/error.h"
#include "snug/layers.h"
#include "snug/ops.h"
#include "snug/session.h"

namespace snug::session {
namespace {

constexpr int64_t kWords = 11;

// Classes of tokens; what is filled up does not count.
Network tokens() {
  return {"tokens", [](NetworkBuilder& b) {
            const Length length = b.length("t");
            const Tensor ids = b.input("ids", {length}, DType::i32);
            const Tensor x = gelu(linear(b, "a", embedding(b, "words", ids, kWords, 8), 8));
            b.minimize(
                cross_entropy(b, linear(b, "out", x, 5), b.input("label", {length}, DType::i32)));
          }};
}

// Rows of these numbers of tokens, filled up to the longest.
struct Tokens {
  std::vector<int64_t> counts;
  int64_t longest = 0;
  std::vector<int32_t> ids, label;
  explicit Tokens(const std::vector<int64_t>& of) : counts(of) {
    for (const int64_t count : of) longest = std::max(longest, count);
    for (const int64_t count : of) {
      for (int64_t t = 0; t < longest; ++t) {
        ids.push_back(static_cast<int32_t>((7 * t + count) % kWords));
        label.push_back(t < count ? static_cast<int32_t>((t * t + count) % 5) : -100);
      }
    }
  }
  [[nodiscard]] Rows rows() const {
    Rows rows(static_cast<int64_t>(counts.size()), {{"t", longest}});
    return rows.add("ids", std::span(ids)).add("label", std::span(label));
  }
};

SessionOptions options_of(int64_t batch, int64_t micro_batch, int64_t length) {
  return {.batch_rows = batch,
          .memory = parse_memory("1GiB"),
          .micro_batch_size = micro_batch,
          .lengths = {{{"t", length}}},
          .optim = "sgd",
          .learning_rate = 0.1,
          .threads = 1};
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0;
  double norm = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(a[i]), 2);
  }
  return std::sqrt(sum / norm);
}

GradientResult gradients_of(const Tokens& data, int64_t micro_batch) {
  SessionOptions options =
      options_of(static_cast<int64_t>(data.counts.size()), micro_batch, data.longest);
  options.only_gradients = true;
  Session session(tokens(), options);
  return session.gradients(data.rows());
}

// The mean of the means of rows weighs a row of 16 tokens as much as one of 512.
TEST(Accumulation, T1_every_split_has_the_mean_over_all_tokens) {
  const Tokens data({512, 16, 32, 480});
  const GradientResult whole = gradients_of(data, 4);
  for (const int64_t micro_batch : {1, 2, 3}) {
    const GradientResult split = gradients_of(data, micro_batch);
    EXPECT_NEAR(split.loss, whole.loss, 1e-6 * whole.loss) << micro_batch;
    for (const auto& [name, gradient] : whole.of)
      EXPECT_LT(distance(gradient, split.of.at(name)), 1e-5) << name << " " << micro_batch;
  }
  double tokens_seen = 0;
  double weighted = 0;
  double mean_of_means = 0;
  for (const int64_t count : data.counts) {
    const double loss = gradients_of(Tokens({count}), 1).loss;
    tokens_seen += static_cast<double>(count);
    weighted += static_cast<double>(count) * loss;
    mean_of_means += loss / static_cast<double>(data.counts.size());
  }
  EXPECT_NEAR(whole.loss, weighted / tokens_seen, 1e-6 * whole.loss);
  EXPECT_GT(std::abs(whole.loss - mean_of_means), 1e-3);  // these rows tell the two apart
}

// A mean is divided by what counts in it: an input that is read in another shape says so, too, and
// labels that the network makes (of a longer row, those one place on) cannot hide some.
TEST(Accumulation, T1_labels_in_another_shape_and_labels_that_are_computed) {
  using Labels = std::function<Tensor(NetworkBuilder&)>;
  const auto loss_of = [](const Labels& labels, const std::vector<int32_t>& fed) {
    const Network network("labelled", [&](NetworkBuilder& b) {
      b.minimize(cross_entropy(b, linear(b, "out", b.input("x", {4, 3}), 5), labels(b)));
    });
    Session session(network, {.batch_rows = 2, .memory = parse_memory("64MiB"), .threads = 1});
    const std::vector<float> x(2 * 4 * 3, 0.5F);
    Rows rows(2);
    rows.add("x", std::span(x)).add("label", std::span(fed));
    return session.step(rows).loss;
  };
  const Labels flat = [](NetworkBuilder& b) { return b.input("label", {4}, DType::i32); };
  const Labels square = [](NetworkBuilder& b) {
    return reshape(b.input("label", {2, 2}, DType::i32), {b.rows(), 4});
  };
  const Labels next = [](NetworkBuilder& b) {
    return slice(b.input("label", {5}, DType::i32), 1, 1, 5);
  };
  const std::vector<int32_t> some = {1, -100, -100, 3, 0, 4, -100, 2};
  EXPECT_EQ(loss_of(square, some), loss_of(flat, some));
  EXPECT_EQ(loss_of(next, {0, 1, 2, 2, 3, 0, 0, 4, 2, 2}), loss_of(flat, {1, 2, 2, 3, 0, 4, 2, 2}));
  const std::string error = refusal(
      [&] {
        (void)loss_of(next, {0, 1, -100, 2, 3, 0, 0, 4, 2, 2});
      },
      ErrorCode::bad_data);
  EXPECT_NE(error.find("-100 where they are an input"), std::string::npos) << error;
}

// Ten rows in batches of four: the third update is the mean of its two rows only.
TEST(Accumulation, T2_the_rows_that_are_left_over_are_a_batch_of_their_own) {
  const Tokens left({5, 3});
  for (const int64_t micro_batch : {1, 2, 4}) {
    Session four(tokens(), options_of(4, micro_batch, 5));
    Session two(tokens(), options_of(2, 2, 5));
    const double loss = four.step(left.rows()).loss;
    EXPECT_NEAR(loss, two.step(left.rows()).loss, 1e-6);
    for (const TensorInfo& tensor : two.tensors())
      EXPECT_LT(distance(two.read(tensor.name), four.read(tensor.name)), 1e-6) << tensor.name;
  }
}

TEST(Accumulation, T3_the_schedule_counts_updates_and_not_micro_batches) {
  const Tokens data({5, 3, 1, 4});
  std::vector<double> expected;
  for (const int64_t micro_batch : {4, 2, 1}) {
    SessionOptions options = options_of(4, micro_batch, 5);
    options.lr_scheduler_type = ScheduleKind::linear;
    options.warmup_steps = 2;
    options.max_steps = 6;
    Session session(tokens(), options);
    std::vector<double> rates;
    for (int i = 0; i < 6; ++i) rates.push_back(session.step(data.rows()).learning_rate);
    if (expected.empty()) expected = rates;
    EXPECT_EQ(rates, expected) << micro_batch;
  }
  EXPECT_EQ(expected.front(), 0);
  EXPECT_NEAR(expected[2], 0.1, 1e-12);
  EXPECT_NEAR(expected[5], 0.025, 1e-12);
}

// Rows whose gradients are (1, 0) and (0, 2): clipped together to length 1 they are (1, 2) / sqrt
// 5, clipped one by one (1, 1) / sqrt 2.
TEST(Accumulation, T4_clipping_sees_the_whole_batch) {
  const Network network = {"orthogonal", [](NetworkBuilder& b) {
                             const Tensor w = b.parameter("w", {2, 1}, InitRule{});
                             b.minimize(b.weighted_mean(matmul(b.input("x", {2}), w)));
                           }};
  const std::vector<float> x = {2, 0, 0, 4};  // of the mean over two rows
  Rows rows(2);
  rows.add("x", std::span(x));
  for (const int64_t micro_batch : {2, 1}) {
    SessionOptions options = options_of(2, micro_batch, 1);
    options.lengths = {};
    options.learning_rate = 1;
    options.max_grad_norm = 1;
    Session session(network, options);
    const StepResult step = session.step(rows);
    EXPECT_NEAR(step.grad_norm, std::sqrt(5), 1e-6);
    const std::vector<float> w = session.read("w");
    EXPECT_NEAR(w[0], -1 / std::sqrt(5), 1e-5) << micro_batch;
    EXPECT_NEAR(w[1], -2 / std::sqrt(5), 1e-5) << micro_batch;
  }
}

// 0 / 0 in one piece of the batch must not reach the sum, nor count in what it is divided by.
TEST(Accumulation, T7_a_micro_batch_without_labels_adds_nothing) {
  const Tokens data({4, 0, 3, 0});
  const GradientResult whole = gradients_of(data, 4);
  ASSERT_TRUE(std::isfinite(whole.loss));
  for (const int64_t micro_batch : {1, 2, 3}) {
    const GradientResult split = gradients_of(data, micro_batch);
    EXPECT_NEAR(split.loss, whole.loss, 1e-6 * whole.loss) << micro_batch;
    for (const auto& [name, gradient] : whole.of)
      EXPECT_LT(distance(gradient, split.of.at(name)), 1e-5) << name << " " << micro_batch;
  }
}

TEST(Accumulation, T7_a_batch_without_labels_is_refused_and_moves_nothing) {
  Session session(tokens(), options_of(2, 1, 3));
  Tokens data({3, 3});
  std::fill(data.label.begin(), data.label.end(), -100);
  const std::string before = bytes_of(session);
  (void)refusal([&] { (void)session.step(data.rows()); }, ErrorCode::bad_data);
  EXPECT_TRUE(bytes_of(session) == before);
}

// A sum of 4096 times 1/1024 in bf16 stops at 0.25 or 0.5; where activations are bf16, too, the
// gradients of weights are added up in f32.
TEST(Accumulation, T21_gradients_of_many_micro_batches_are_added_up_in_f32) {
  constexpr int64_t kRows = 4096;
  const Network network = {"sum", [](NetworkBuilder& b) {
                             const Tensor w = b.parameter("w", {8, 8}, InitRule{});
                             b.minimize(b.weighted_mean(matmul(b.input("x", {8}), w)));
                           }};
  const std::vector<float> x(kRows * 8, 1.0F);
  Rows rows(kRows);
  rows.add("x", std::span(x));
  SessionOptions options = options_of(kRows, 1, 1);
  options.lengths = {};
  options.learning_rate = 1;
  options.bf16 = true;
  Session session(network, options);
  (void)session.step(rows);
  // The gradient of the mean over rows x 8 values, of inputs of 1, is 1/8 everywhere.
  for (const float value : session.read("w")) EXPECT_NEAR(value, -0.125, 1e-3);
}

}  // namespace
}  // namespace snug::session
