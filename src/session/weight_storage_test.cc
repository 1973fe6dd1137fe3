// SPDX-License-Identifier: Apache-2.0
// Trained weights in 24 and 16 bits: the bytes that were promised, rounding that loses nothing on
// the average, the same bits whatever the plan, and through a saved session.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "session/testing.h"
#include "snug/layers.h"
#include "snug/ops.h"
#include "snug/session.h"

namespace snug::session {
namespace {

constexpr int64_t kRows = 16;
constexpr int64_t kWords = 60;

// A table and maps with norms.
Network network() {
  return {"stored", [](NetworkBuilder& b) {
            Tensor x = b.op1("embedding",
                             {b.parameter("words.weight", {kWords, 96}, InitRule::normal(1)),
                              b.input("ids", {}, DType::i32)},
                             {{"to", "f32"}});
            for (const char* name : {"first", "second"}) {
              const Scope scope(b, name);
              x = x + dropout(linear(b, "down",
                                     gelu(linear(b, "up", layer_norm(b, "norm", x), 300)), 96),
                              0.1);
            }
            const Tensor logits = linear(b, "classes", x, 3);
            b.output("logits", logits);
            b.minimize(cross_entropy(b, logits, b.input("label", {}, DType::i32)));
          }};
}

struct Data {
  std::vector<int32_t> ids, label;
  Data() {
    for (int32_t row = 0; row < kRows; ++row) {
      ids.push_back(row * 7 % static_cast<int32_t>(kWords));
      label.push_back(row % 3);
    }
  }
  [[nodiscard]] Rows all() const {
    Rows rows(kRows);
    rows.add("ids", std::span(ids)).add("label", std::span(label));
    return rows;
  }
};

SessionOptions options_of(const std::string& dtype, const std::string& memory = "1GiB") {
  return {.batch_rows = kRows,
          .memory = parse_memory(memory),
          .learning_rate = 0.01,
          .max_grad_norm = 1,
          .weight_dtype = dtype,
          .threads = 1};
}

std::map<std::string, std::vector<float>> weights_of(const Session& session) {
  std::map<std::string, std::vector<float>> all;
  for (const TensorInfo& tensor : session.tensors()) {
    if (tensor.kind == TensorKind::parameter) all[tensor.name] = session.read(tensor.name);
  }
  return all;
}

std::map<std::string, std::vector<float>> trained(const SessionOptions& options, int updates = 3) {
  const Data data;
  Session session(network(), options);
  for (int i = 0; i < updates; ++i) session.step(data.all());
  return weights_of(session);
}

class Stored_weights : public testing::TestWithParam<const char*> {};

TEST_P(Stored_weights, take_the_bytes_that_they_should) {
  const Session session(network(), options_of(GetParam()));
  const DType dtype = std::string(GetParam()) == "bfloat16" ? DType::bf16 : DType::bf16x8;
  int stored = 0;
  for (const TensorInfo& tensor : session.tensors()) {
    if (tensor.kind != TensorKind::parameter) continue;
    const bool is_large = tensor.shape.size() > 1 && element_count(tensor.shape) >= 4096;
    EXPECT_EQ(tensor.dtype, is_large ? dtype : DType::f32) << tensor.name;
    const int64_t bytes = element_count(tensor.shape) * element_bytes(tensor.dtype);
    EXPECT_EQ(std::ssize(session.view_bytes(tensor.name)), bytes) << tensor.name;
    stored += is_large ? 1 : 0;
  }
  EXPECT_EQ(stored, 5);
}

TEST_P(Stored_weights, have_the_same_bits_whatever_the_plan) {
  for (const bool bf16 : {false, true}) {
    SessionOptions options = options_of(GetParam());
    options.bf16 = bf16;
    options.micro_batch_size = kRows;
    const auto whole = trained(options);
    const PlanReport report = plan_network(network(), options);
    options.memory = parse_memory(std::to_string(report.smallest_budget_bytes));
    EXPECT_EQ(trained(options), whole);
    options.threads = 2;
    options.optim_bits = 8;
    EXPECT_NE(trained(options), whole);
  }
}

// One update with the same weights and no clipping: within a place of what f32 would be.
TEST_P(Stored_weights, are_within_a_place_of_what_f32_would_be) {
  const Data data;
  SessionOptions options = options_of(GetParam());
  options.max_grad_norm = 0;
  options.micro_batch_size = kRows;
  for (const char* optim : {"sgd", "lars", "adafactor", "adamw", "lamb", "rmsprop"}) {
    options.optim = optim;
    Session session(network(), options);
    SessionOptions plain = options;
    plain.weight_dtype = "float32";
    Session reference(network(), plain);
    for (const auto& [name, values] : weights_of(session)) reference.write(name, values);
    session.step(data.all());
    reference.step(data.all());
    const double place = std::string(GetParam()) == "bfloat16" ? 0x1p-7 : 0x1p-15;
    for (const auto& [name, values] : weights_of(session)) {
      const std::vector<float> wanted = reference.read(name);
      int64_t outside = 0;  // where a gradient is hardly more than the rounding of its sum
      for (size_t i = 0; i < values.size(); ++i) {
        const auto want = static_cast<double>(wanted[i]);
        const double bound = place * std::abs(want) + 3e-6;
        outside += std::abs(static_cast<double>(values[i]) - want) > bound ? 1 : 0;
      }
      EXPECT_LE(outside, std::ssize(values) / 500) << optim << " " << name;
    }
  }
}

TEST_P(Stored_weights, go_through_a_saved_session) {
  const Data data;
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / (std::string("stored_") + GetParam());
  Session session(network(), options_of(GetParam()));
  session.step(data.all());
  session.save(folder.string());
  session.step(data.all());
  Session resumed = Session::resume(network(), folder.string(), options_of(GetParam()));
  resumed.step(data.all());
  EXPECT_EQ(weights_of(resumed), weights_of(session));
  SessionOptions other = options_of("float32");
  EXPECT_THROW((void)Session::resume(network(), folder.string(), other), Error);
}

INSTANTIATE_TEST_SUITE_P(Types, Stored_weights, testing::Values("bfloat16", "bf16x8"));

// 1000 updates of 6e-4 on weights of 1: rounding to the nearest would hold every one of them still.
TEST(Stored_weights_in_bf16, move_by_what_they_should) {
  constexpr int64_t kSide = 64;
  const Network sum{"sum", [](NetworkBuilder& b) {
                      const Tensor w = b.parameter("w", {kSide, kSide}, InitRule::ones());
                      const Tensor y = matmul(b.input("x", {kSide}), w, {.transpose_b = true});
                      b.minimize(mean_squared_error(b, y, b.input("y", {kSide})));
                    }};
  SessionOptions options{.batch_rows = 1,
                         .optim = "lion",
                         .learning_rate = 6e-4,
                         .weight_decay = 0,
                         .max_grad_norm = 0,
                         .weight_dtype = "bfloat16",
                         .threads = 1};
  Session session(sum, options);
  // Every gradient is positive: lion subtracts the rate from each weight.
  const std::vector<float> ones(kSide, 1);
  const std::vector<float> far_below(kSide, -1000);
  for (int i = 0; i < 1000; ++i) {
    Rows rows(1);
    rows.add("x", std::span(ones)).add("y", std::span(far_below));
    session.step(rows);
  }
  const std::vector<float> w = session.read("w");
  const double mean = std::accumulate(w.begin(), w.end(), 0.0) / static_cast<double>(w.size());
  EXPECT_NEAR(mean, 1 - 1000 * 6e-4, 0.005);
  EXPECT_NE(*std::min_element(w.begin(), w.end()), *std::max_element(w.begin(), w.end()));
}

// A sum of rows decodes them itself: no table in f32 stands beside its gradient.
TEST(Stored_weights, are_read_by_sums_of_rows_as_they_are) {
  const int64_t words = 2000;
  const Network summed("summed", [](NetworkBuilder& b) {
    const Tensor ids = b.input("ids", {}, DType::i32);
    const Tensor importance = b.parameter("importance", {words, 1}, InitRule::ones());
    const Tensor x = embedding_sum(b, "words", reshape(ids, {b.rows(), 1}),
                                   gather_rows(importance, ids), words, 96);
    b.minimize(cross_entropy(b, linear(b, "out", x, 3), b.input("label", {}, DType::i32)));
  });
  const auto table = static_cast<double>(words * 96 * 4);
  const Data data;
  const double wanted = Session(summed, options_of("float32")).step(data.all()).loss;
  for (const char* dtype : {"bfloat16", "bf16x8"}) {
    Session session(summed, options_of(dtype));
    EXPECT_LT(static_cast<double>(session.plan().arena_bytes), 1.5 * table) << dtype;
    EXPECT_NEAR(session.step(data.all()).loss, wanted, 1e-2) << dtype;
  }
}

TEST(Stored_weights, are_refused_where_there_are_none) {
  const Network small{"small", [](NetworkBuilder& b) {
                        const Tensor logits = linear(b, "classes", b.input("x", {4}), 3);
                        b.minimize(cross_entropy(b, logits, b.input("label", {}, DType::i32)));
                      }};
  SessionOptions options = options_of("bfloat16");
  try {
    (void)plan_network(small, options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("weight_dtype"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace snug::session
