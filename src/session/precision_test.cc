// SPDX-License-Identifier: Apache-2.0
// The known ways in which training in 16 bits, states and evaluation go wrong (docs/traps.md).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "session/testing.h"
#include "snug/error.h"
#include "snug/layers.h"
#include "snug/session.h"

namespace snug::session {
namespace {

constexpr int64_t kRows = 4;
constexpr int64_t kTokens = 9;
constexpr int64_t kWidth = 16;
constexpr int64_t kHeads = 2;
constexpr double kHalf = 0x1p-11;  // the rounding of f16

// The op that masks: attention, or masked_softmax, whose mask may also be causal.
enum class Kind : uint8_t { attention, causal };

Network masked(Kind kind) {
  return {"masked", [=](NetworkBuilder& b) {
            const Tensor x = b.input("x", {kTokens, kWidth});
            Tensor y;
            if (kind == Kind::attention) {
              const Tensor mask = b.input("mask", {kTokens}, DType::boolean);
              y = attention(x, x, x, mask, {.heads = kHeads});
            } else {
              const Tensor mask = b.input("mask", {kTokens, kTokens}, DType::boolean);
              const Tensor scaled = (1 / std::sqrt(static_cast<double>(kWidth))) * x;
              y = matmul(masked_softmax(matmul(scaled, x, {.transpose_b = true}), mask), x);
            }
            b.output("y", y);
            b.minimize(
                cross_entropy(b, linear(b, "out", y, 3), b.input("label", {kTokens}, DType::i32)));
          }};
}

// Row 0 is whole, 1 filled up on the left, 2 on the right, 3 is nothing but padding. Scores reach
// some hundreds: a constant of -1e4 in place of a mask would not be far below them. Values are
// exact in f16.
struct Data {
  std::vector<float> x;
  std::vector<uint8_t> there;
  std::vector<int32_t> label;
  Data() {
    for (int64_t i = 0; i < kRows * kTokens * kWidth; ++i)
      x.push_back(std::round(200 * std::sin(1.9F * static_cast<float>(i * i % 977))) / 16);
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t t = 0; t < kTokens; ++t) {
        const bool is_there = row == 0 || (row == 1 && t >= 4) || (row == 2 && t < 5);
        there.push_back(is_there ? 1 : 0);
        label.push_back(is_there ? static_cast<int32_t>(t % 3) : -100);
      }
    }
  }
  [[nodiscard]] std::vector<uint8_t> causal() const {
    std::vector<uint8_t> mask;
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t query = 0; query < kTokens; ++query) {
        for (int64_t key = 0; key < kTokens; ++key)
          mask.push_back(key <= query ? there[static_cast<size_t>(row * kTokens + key)] : 0);
      }
    }
    return mask;
  }
  [[nodiscard]] double dot_of_sizes(int64_t row, int64_t query, int64_t key, int64_t first,
                                    int64_t count) const {
    double sum = 0;
    for (int64_t i = first; i < first + count; ++i) {
      const auto at = [&](int64_t token) {
        return static_cast<double>(x[static_cast<size_t>((row * kTokens + token) * kWidth + i)]);
      };
      sum += std::abs(at(query) * at(key));
    }
    return sum;
  }
};

std::vector<float> outputs(const Network& network, const SessionOptions& options,
                           const Rows& rows) {
  Session session(network, options);
  std::vector<float> y;
  (void)session.evaluate(rows, [&](const OutputRows& out) {
    const auto values = out.values.at("y");
    y.insert(y.end(), values.begin(), values.end());
  });
  return y;
}

// An output is a mean of values, weighed by exp(score). A score that is stored in f16 moves by
// 2^-11 of its size, one that is not by the rounding of a sum in f32; a weight by a factor of exp(2
// * that) and, where it is stored, by 2^-11; the mean of values by 2^-11.
double bound(double score_error, double largest) {
  return largest * (std::expm1(2 * score_error) + 4 * kHalf);
}

TEST(Precision, T22_masked_rows_in_f16_are_finite_and_within_their_bounds_of_f32) {
  const Data data;
  const std::vector<uint8_t> causal = data.causal();
  for (const Kind kind : {Kind::attention, Kind::causal}) {
    Rows rows(kRows);
    rows.add("x", std::span(data.x)).add("label", std::span(data.label));
    rows.add("mask", std::span(kind == Kind::attention ? data.there : causal));
    SessionOptions options = {.batch_rows = kRows, .memory = parse_memory("64MiB"), .threads = 1};
    const std::vector<float> wanted = outputs(masked(kind), options, rows);
    options.fp16_full_eval = true;
    const std::vector<float> y = outputs(masked(kind), options, rows);
    ASSERT_EQ(y.size(), wanted.size());
    int64_t checked = 0;
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t query = 0; query < kTokens; ++query) {
        const int64_t parts = kind == Kind::attention ? kHeads : 1;
        const int64_t columns = kWidth / parts;
        for (int64_t part = 0; part < parts; ++part) {
          double score_error = 0;
          for (int64_t key = 0; key < kTokens; ++key)
            score_error =
                std::max(score_error, data.dot_of_sizes(row, query, key, part * columns, columns) /
                                          std::sqrt(static_cast<double>(columns)) *
                                          (kind == Kind::attention ? 0x1p-20 : kHalf));
          for (int64_t i = part * columns; i < (part + 1) * columns; ++i) {
            const auto at = static_cast<size_t>((row * kTokens + query) * kWidth + i);
            ASSERT_TRUE(std::isfinite(y[at])) << row << " " << query;
            EXPECT_NEAR(y[at], wanted[at], bound(score_error, 12.5)) << row << " " << query;
            checked += bound(score_error, 12.5) < 6 ? 1 : 0;  // where the bound says something
            if (row == 3) {
              EXPECT_EQ(y[at], 0);
            }
          }
        }
      }
    }
    EXPECT_GT(checked, kRows * kTokens * kWidth / 4);
    options.fp16_full_eval = false;
    options.fp16 = true;
    Session session(masked(kind), options);
    for (int i = 0; i < 3; ++i) {
      const StepResult step = session.step(rows);
      EXPECT_FALSE(step.is_skipped);
      EXPECT_TRUE(std::isfinite(step.loss) && std::isfinite(step.grad_norm));
    }
  }
}

Network dropped() {
  return {"dropped", [](NetworkBuilder& b) {
            const Tensor x = dropout(gelu(linear(b, "a", b.input("x", {kWidth}), 64)), 0.3);
            const Tensor y = linear(b, "out", batch_norm(b, "norm", linear(b, "b", x, 64)), 3);
            b.minimize(cross_entropy(b, y, b.input("label", {}, DType::i32)));
          }};
}

struct Labelled {
  std::vector<float> x;
  std::vector<int32_t> label;
  Labelled() {
    for (int64_t i = 0; i < kRows * kWidth; ++i)
      x.push_back(static_cast<float>(std::sin(0.7 * static_cast<double>(i))));
    for (int64_t row = 0; row < kRows; ++row) label.push_back(static_cast<int32_t>(row % 3));
  }
  [[nodiscard]] Rows rows() const {
    Rows rows(kRows);
    return rows.add("x", std::span(x)).add("label", std::span(label));
  }
};

SessionOptions options_of(bool bf16 = false, int64_t bits = 32) {
  return {.batch_rows = kRows,
          .memory = parse_memory("64MiB"),
          .weight_decay = 0.01,
          .optim_bits = bits,
          .bf16 = bf16,
          .bf16_full_eval = bf16,
          .threads = 1};
}

// Evaluation must neither leave dropout off, nor move running statistics or the random numbers,
// nor leave the casts of older weights behind.
TEST(Precision, T14_T33_evaluation_between_steps_changes_no_bit) {
  const Labelled data;
  struct Case {
    bool bf16;
    int64_t micro_batch;  // where it splits the batch, casts of weights are made once an update
  };
  for (const auto& [bf16, micro_batch] : {Case{false, 4}, {false, 2}, {true, 4}, {true, 2}}) {
    SessionOptions options = options_of(bf16);
    options.micro_batch_size = micro_batch;
    options.allow_coupled_split = true;
    Session plain(dropped(), options);
    Session evaluated(dropped(), options);
    double before = 0;
    for (int i = 0; i < 3; ++i) {
      (void)plain.step(data.rows());
      (void)evaluated.step(data.rows());
      const double loss = evaluated.evaluate(data.rows()).loss;
      EXPECT_NE(loss, before) << "the weights of an update before";
      before = loss;
      EXPECT_EQ(evaluated.evaluate(data.rows()).loss, loss);
      // A session that has evaluated nothing before has no cast that is older than its weight.
      Session late(dropped(), options);
      for (int step = 0; step <= i; ++step) (void)late.step(data.rows());
      EXPECT_EQ(late.evaluate(data.rows()).loss, loss);
    }
    EXPECT_TRUE(bytes_of(evaluated) == bytes_of(plain)) << bf16;
  }
}

// Without dropout and batch statistics the loss of training and of evaluation is one number.
TEST(Precision, T33_training_and_evaluation_define_the_loss_alike) {
  const Network network = {
      "plain", [](NetworkBuilder& b) {
        const Tensor x = gelu(linear(b, "a", b.input("x", {kWidth}), 64));
        b.minimize(cross_entropy(b, linear(b, "out", x, 3), b.input("label", {}, DType::i32)));
      }};
  const Labelled data;
  for (const int64_t micro_batch : {4, 3, 1}) {
    SessionOptions options = options_of();
    options.micro_batch_size = micro_batch;
    Session session(network, options);
    const double before = session.evaluate(data.rows()).loss;
    EXPECT_NEAR(session.step(data.rows()).loss, before, 1e-6 * before) << micro_batch;
  }
}

// The first update of AdamW moves every weight by the rate, times the sign of its gradient: no step
// before it has touched the moments or their count, nor has saving and going on at update 0.
TEST(Precision, T26_the_first_update_is_adams_whatever_was_made_before) {
  const Labelled data;
  std::string folder = (std::filesystem::temp_directory_path() / "snug_traps_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  for (const int64_t bits : {32, 8}) {
    SessionOptions options = options_of(false, bits);
    options.weight_decay = 0;
    options.optim_args = {{"epsilon", 1e-30}};
    options.only_gradients = true;
    Session gradients(dropped(), options);
    const GradientResult wanted = gradients.gradients(data.rows());
    options.only_gradients = false;
    Session first(dropped(), options);
    first.save(folder + "/saved");
    Session second = Session::resume(dropped(), folder + "/saved", options);
    for (Session* session : {&first, &second}) {
      const std::vector<float> before = session->read("a.weight");
      const std::vector<float>& gradient = wanted.of.at("a.weight");
      (void)session->step(data.rows());
      const std::vector<float> after = session->read("a.weight");
      int64_t moved = 0;
      for (size_t i = 0; i < before.size(); ++i) {
        if (std::abs(gradient[i]) < 1e-6F) continue;
        ++moved;
        const double sign = gradient[i] > 0 ? 1 : -1;
        EXPECT_NEAR(before[i] - after[i], 1e-3 * sign, 2e-6) << bits << " " << i;
      }
      EXPECT_GT(moved, 500);
    }
    EXPECT_TRUE(bytes_of(first) == bytes_of(second));
    std::filesystem::remove_all(folder + "/saved");
  }
  std::filesystem::remove_all(folder);
}

// A state in 8 bits must hold 0 exactly: a rest in m over the root of v = 0 would move what has no
// gradient further than anything else. (The codec bnb has the codes of its package, which on a CPU
// has no 0 beside large numbers: that is for compatibility.)
TEST(Precision, T24_rows_of_a_table_that_do_not_occur_never_move) {
  constexpr int64_t kWords = 200;
  const Network network = {
      "words", [](NetworkBuilder& b) {
        const Tensor ids = b.input("ids", {}, DType::i32);
        const Tensor x = embedding(b, "words", ids, kWords, 64);
        b.minimize(cross_entropy(b, linear(b, "out", x, 3), b.input("label", {}, DType::i32)));
      }};
  const std::vector<int32_t> label = {0, 1, 2, 0};
  SessionOptions options = options_of(false, 8);
  options.weight_decay = 0;
  options.optim_bits_overrides = {{"words.weight", 8}};
  Session session(network, options);
  EXPECT_NO_THROW((void)session.view_bytes("m.words.weight.codes"));
  const std::vector<float> before = session.read("words.weight");
  for (int i = 0; i < 20; ++i) {
    // Large and small gradients lie in the same blocks of 256 as the rows without any.
    const std::vector<int32_t> ids = {0, 5, i % 2 == 0 ? 1 : 5, 198};
    Rows rows(kRows);
    rows.add("ids", std::span(ids)).add("label", std::span(label));
    (void)session.step(rows);
  }
  const std::vector<float> after = session.read("words.weight");
  for (int64_t row = 0; row < kWords; ++row) {
    const bool occurs = row <= 1 || row == 5 || row == 198;
    const auto at = row * 64;
    EXPECT_EQ(std::equal(before.begin() + at, before.begin() + at + 64, after.begin() + at),
              !occurs)
        << row;
  }
}

// What is frozen neither decays nor has a part in the norm that clipping sees.
TEST(Precision, T27_frozen_weights_stay_and_are_no_part_of_the_norm) {
  const Labelled data;
  SessionOptions options = options_of();
  options.only_gradients = true;
  options.freeze = {"a.*"};
  Session gradients(dropped(), options);
  double squares = 0;
  for (const auto& [name, values] : gradients.gradients(data.rows()).of) {
    EXPECT_FALSE(name.starts_with("a.")) << name;
    for (const float value : values) squares += std::pow(static_cast<double>(value), 2);
  }
  options.only_gradients = false;
  options.weight_decay = 0.5;
  options.max_grad_norm = 1e9;
  Session session(dropped(), options);
  const std::vector<float> before = session.read("a.weight");
  EXPECT_NEAR(session.step(data.rows()).grad_norm, std::sqrt(squares), 1e-6 * std::sqrt(squares));
  for (int i = 0; i < 99; ++i) (void)session.step(data.rows());
  EXPECT_EQ(session.read("a.weight"), before);
  for (const TensorInfo& tensor : session.tensors())
    EXPECT_EQ(tensor.name.find(".a."), std::string::npos) << tensor.name;
}

}  // namespace
}  // namespace snug::session
