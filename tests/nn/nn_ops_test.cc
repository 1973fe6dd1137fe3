// SPDX-License-Identifier: Apache-2.0
// The ops of neural networks against PyTorch in float64 (tests/golden/nn_ops.txt,
// written by tools/golden/ops.py), DeBERTa's attention against transformers, on the reference
// backend. Shapes, errors and gradients of single ops are the op harness's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "nn/ref_graph.h"
#include "ops/attention/attention.h"
#include "ops/disentangled_attention/disentangled_attention.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/loss/loss.h"
#include "ops/optimizer/optimizer.h"
#include "ops/reduce/reduce.h"

namespace snug {

using autodiff::append_gradients;

namespace {

constexpr double kTolerance = 1e-11;  // relative to the largest element, or to 0.01

const GoldenText& goldens() {
  static const GoldenText text(SNUG_SOURCE_DIR "/tests/golden/nn_ops.txt");
  return text;
}

void expect_close(const std::vector<double>& found, const std::vector<double>& wanted,
                  const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  double scale = 0.01;
  for (double x : wanted) scale = std::max(scale, std::abs(x));
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double error = std::abs(found[i] - wanted[i]);
    EXPECT_TRUE(error <= kTolerance * scale)
        << what << "[" << i << "] = " << found[i] << ", not " << wanted[i];
  }
}

// Gradients of `output` for the cotangent, by parameter.
std::map<ValueId, ValueId> differentiate(RefGraph& graph, ValueId output,
                                         const GoldenTensor& cotangent,
                                         const std::vector<ValueId>& wrt) {
  const ValueId seed = graph.parameter(cotangent);
  return append_gradients(graph.builder, output, seed, wrt);
}

class Attention_golden : public testing::TestWithParam<std::pair<const char*, int64_t>> {};

TEST_P(Attention_golden, equals_pytorch) {
  const auto [name, heads] = GetParam();
  const auto golden = [prefix = "attention." + std::string(name) +
                                "."](const std::string& key) -> const GoldenTensor& {
    return goldens().at(prefix + key);
  };
  RefGraph graph;
  const ValueId q = graph.parameter(golden("q"));
  const ValueId k = graph.parameter(golden("k"));
  const ValueId v = graph.parameter(golden("v"));
  const ValueId mask = graph.input(DType::boolean, golden("mask").shape, golden("mask").data);
  const AttentionOutputs out = attention(graph.builder, q, k, v, {.heads = heads, .mask = mask});
  const auto gradients = differentiate(graph, out.o, golden("do"), {q, k, v});
  expect_close(graph.value(out.o), golden("o").data, "o");
  expect_close(graph.value(out.lse), golden("lse").data, "lse");
  expect_close(graph.value(gradients.at(q)), golden("dq").data, "dq");
  expect_close(graph.value(gradients.at(k)), golden("dk").data, "dk");
  expect_close(graph.value(gradients.at(v)), golden("dv").data, "dv");
}

INSTANTIATE_TEST_SUITE_P(Cases, Attention_golden,
                         testing::Values(std::pair{"plain", 3}, std::pair{"masked", 2},
                                         std::pair{"one_sample_masked", 2},
                                         std::pair{"one_visible_key", 1},
                                         std::pair{"one_token", 2}));

class Disentangled_attention_golden
    : public testing::TestWithParam<std::pair<const char*, int64_t>> {};

TEST_P(Disentangled_attention_golden, equals_transformers) {
  const auto [name, heads] = GetParam();
  const std::string prefix = "disentangled_attention." + std::string(name) + ".";
  const auto golden = [&](const std::string& key) -> const GoldenTensor& {
    return goldens().at(prefix + key);
  };
  const std::string all = name;
  const bool has_all = all == "buckets" || all == "every_distance";
  RefGraph graph;
  std::map<std::string, ValueId> given;
  for (const char* key : {"q", "k", "v"}) given[key] = graph.parameter(golden(key));
  if (has_all || all == "c2p") given["pos_key"] = graph.parameter(golden("pos_key"));
  if (has_all || all == "p2c") given["pos_query"] = graph.parameter(golden("pos_query"));
  const auto table = [&](const char* key) { return given.count(key) == 0 ? kNone : given[key]; };
  const ValueId o = disentangled_attention(
      graph.builder, given["q"], given["k"], given["v"],
      {.heads = heads,
       .pos_key = table("pos_key"),
       .pos_query = table("pos_query"),
       .buckets = static_cast<int64_t>(golden("buckets").data[0]),
       .max_distance = static_cast<int64_t>(golden("max_distance").data[0]),
       .mask = graph.input(DType::boolean, golden("mask").shape, golden("mask").data)});
  std::vector<ValueId> wrt;
  for (const auto& [key, id] : given) wrt.push_back(id);
  const auto gradients = differentiate(graph, o, golden("do"), wrt);
  expect_close(graph.value(o), golden("o").data, "o");
  for (const auto& [key, id] : given)
    expect_close(graph.value(gradients.at(id)), golden("d" + key).data, "d" + key);
}

INSTANTIATE_TEST_SUITE_P(Cases, Disentangled_attention_golden,
                         testing::Values(std::pair{"buckets", 2}, std::pair{"every_distance", 1},
                                         std::pair{"c2p", 1}, std::pair{"p2c", 1},
                                         std::pair{"no_terms", 2}));

TEST(Attention, without_mask_equals_a_mask_of_ones) {
  const GoldenTensor& q = goldens().at("attention.plain.q");
  RefGraph graph;
  const ValueId x = graph.parameter(q);
  const ValueId plain = attention(graph.builder, x, x, x, {.heads = 2}).o;
  const ValueId ones = graph.input(DType::boolean, {2, 5}, std::vector<double>(10, 1));
  const ValueId masked = attention(graph.builder, x, x, x, {.heads = 2, .mask = ones}).o;
  EXPECT_EQ(graph.value(plain), graph.value(masked));
}

TEST(Attention, gradient_of_lse_is_refused) {
  RefGraph graph;
  const ValueId x = graph.parameter({1, 2, 2}, {1, 2, 3, 4});
  const AttentionOutputs out = attention(graph.builder, x, x, x, {.heads = 1});
  const ValueId loss = reduce_sum(graph.builder, out.lse, {0, 1, 2});
  try {
    (void)append_gradients(graph.builder, loss, kNone, std::vector<ValueId>{x});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("lse of attention has no gradient"), std::string::npos)
        << error.what();
  }
}

TEST(Layer_norm, equals_pytorch_far_from_zero) {
  for (const std::string name : {"bert", "gpt"}) {
    const std::string prefix = "layer_norm." + name + ".";
    RefGraph graph;
    const ValueId x = graph.parameter(goldens().at(prefix + "x"));
    const ValueId gamma = graph.parameter(goldens().at(prefix + "gamma"));
    const ValueId beta = graph.parameter(goldens().at(prefix + "beta"));
    const double eps = goldens().at(prefix + "eps").data[0];
    const ValueId y = layer_norm(graph.builder, x, gamma, beta, eps).y;
    const auto gradients = differentiate(graph, y, goldens().at(prefix + "dy"), {x, gamma, beta});
    expect_close(graph.value(y), goldens().at(prefix + "y").data, prefix + "y");
    expect_close(graph.value(gradients.at(x)), goldens().at(prefix + "dx").data, prefix + "dx");
    expect_close(graph.value(gradients.at(gamma)), goldens().at(prefix + "dgamma").data,
                 prefix + "dgamma");
    expect_close(graph.value(gradients.at(beta)), goldens().at(prefix + "dbeta").data,
                 prefix + "dbeta");
  }
}

TEST(Cross_entropy, equals_pytorch) {
  for (const std::string name : {"plain", "smoothed"}) {
    const auto golden = [prefix = "cross_entropy." + name +
                                  "."](const std::string& key) -> const GoldenTensor& {
      return goldens().at(prefix + key);
    };
    RefGraph graph;
    const ValueId logits = graph.parameter(golden("logits"));
    const ValueId labels = graph.input(DType::i32, golden("labels").shape, golden("labels").data);
    const ValueId weights = graph.parameter(golden("weights"));
    const ValueId inv_total = graph.parameter(golden("inv_total"));
    const ValueId loss = softmax_cross_entropy(graph.builder, logits, labels, weights, inv_total,
                                               {.label_smoothing = golden("smoothing").data[0]})
                             .loss;
    const auto gradients =
        append_gradients(graph.builder, loss, kNone, std::vector<ValueId>{logits});
    expect_close(graph.value(loss), golden("loss").data, name + " loss");
    expect_close(graph.value(gradients.at(logits)), golden("dlogits").data, name + " dlogits");
  }
}

TEST(Cross_entropy, confident_row_keeps_its_loss_and_gradient) {
  RefGraph graph;
  const ValueId logits = graph.parameter({1, 3}, {40, 0, -3});
  const ValueId labels = graph.input(DType::i32, {1}, {0});
  const ValueId one = graph.parameter({1}, {1});
  const ValueId inv_total = graph.parameter({}, {1});
  const ValueId loss = softmax_cross_entropy(graph.builder, logits, labels, one, inv_total).loss;
  const auto gradients = append_gradients(graph.builder, loss, kNone, std::vector<ValueId>{logits});
  const double others = std::exp(-40.0) + std::exp(-43.0);
  EXPECT_NEAR(graph.value(loss)[0] / others, 1, 1e-12);
  EXPECT_NEAR(graph.value(gradients.at(logits))[0] / -others, 1, 1e-12);
}

// Splitting the rows over two losses with the same inv_total gives the loss of all.
TEST(Cross_entropy, losses_of_a_split_batch_add_up) {
  const std::vector<double>& all = goldens().at("cross_entropy.smoothed.logits").data;
  const std::vector<double>& labels = goldens().at("cross_entropy.smoothed.labels").data;
  const std::vector<double>& weights = goldens().at("cross_entropy.smoothed.weights").data;
  double sum = 0;
  for (size_t first : {size_t{0}, size_t{3}}) {
    const size_t rows = first == 0 ? 3 : 1;
    const auto part = [first, rows](const std::vector<double>& data, size_t width) {
      const auto begin = data.begin() + static_cast<ptrdiff_t>(first * width);
      return std::vector<double>(begin, begin + static_cast<ptrdiff_t>(rows * width));
    };
    RefGraph graph;
    const auto count = static_cast<int64_t>(rows);
    const ValueId loss =
        softmax_cross_entropy(graph.builder, graph.parameter({count, 5}, part(all, 5)),
                              graph.input(DType::i32, {count}, part(labels, 1)),
                              graph.parameter({count}, part(weights, 1)),
                              graph.parameter(goldens().at("cross_entropy.smoothed.inv_total")),
                              {.label_smoothing = 0.125})
            .loss;
    sum += graph.value(loss)[0];
  }
  EXPECT_NEAR(sum, goldens().at("cross_entropy.smoothed.loss").data[0], 1e-13);
}

// The clipped gradient of PyTorch is ours times the coefficient, which the steps multiply it by.
TEST(Global_norm, coefficient_equals_pytorch) {
  for (const std::string name : {"above", "below"}) {
    RefGraph graph;
    std::vector<ValueId> sums;
    for (const char* i : {"0", "1"}) {
      sums.push_back(sum_squares(graph.builder,
                                 graph.parameter(goldens().at("clip." + name + ".gradient" + i))));
    }
    const GlobalNormOutputs out =
        global_norm(graph.builder, sums, goldens().at("clip." + name + ".max_norm").data[0]);
    const double coefficient = graph.value(out.coefficient)[0];
    expect_close(graph.value(out.norm), goldens().at("clip." + name + ".norm").data,
                 name + " norm");
    EXPECT_EQ(coefficient < 1, name == "above");
    for (const char* i : {"0", "1"}) {
      std::vector<double> clipped = goldens().at("clip." + name + ".gradient" + i).data;
      for (double& x : clipped) x *= coefficient;
      expect_close(clipped, goldens().at("clip." + name + ".clipped" + i).data,
                   name + " gradient " + i);
    }
  }
}

TEST(Global_norm, what_is_not_finite_passes_through) {
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    RefGraph graph;
    const std::vector<ValueId> sums = {graph.parameter({}, {bad}), graph.parameter({}, {1})};
    const GlobalNormOutputs out = global_norm(graph.builder, sums, 1);
    EXPECT_FALSE(std::isfinite(graph.value(out.norm)[0]));
    EXPECT_TRUE(std::isnan(graph.value(out.coefficient)[0]));
  }
}

}  // namespace
}  // namespace snug
