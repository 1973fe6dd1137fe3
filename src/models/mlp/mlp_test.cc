// SPDX-License-Identifier: Apache-2.0
// The MLP's mean over tokens and structure, and initial weights of all models.
#include "models/mlp/mlp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/reference/reference.h"
#include "graph/verify.h"
#include "ops/registry.h"
#include "tasks/testing.h"

namespace snug::models {
namespace {

MlpConfig small_config() {
  MlpConfig config;
  config.vocab_size = 6;
  config.embedding_size = 3;
  config.hidden_sizes = {4};
  config.num_labels = 2;
  return config;
}

struct Outcome {
  double loss = 0;
  std::vector<double> logits;
};

// One row a list of tokens, padded with token 0 to `length`; all weights from one seed.
Outcome run(const std::vector<std::vector<double>>& rows, int64_t length,
            const std::vector<double>& weights) {
  GraphBuilder builder(op_registry(), "mlp");
  const auto count = static_cast<int64_t>(rows.size());
  const SequenceModel model =
      tasks::with_task(builder, build_mlp_classifier(builder, small_config(), {count, length}, {}));
  verify(builder.graph());
  RefValues feeds;
  std::vector<double> ids;
  std::vector<double> mask;
  for (const std::vector<double>& row : rows) {
    for (int64_t i = 0; i < length; ++i) {
      const bool is_there = i < static_cast<int64_t>(row.size());
      ids.push_back(is_there ? row[static_cast<size_t>(i)] : 0);
      mask.push_back(is_there ? 1 : 0);
    }
  }
  feeds[model.input_ids] = ids;
  feeds[model.attention_mask] = mask;
  feeds[model.labels] = std::vector<double>(rows.size(), 1);
  feeds[model.row_weights] = weights;
  feeds[model.inv_total] = {0.5};
  const Graph& graph = builder.graph();
  for (const ValueId id : graph.values.ids()) {
    const Value& value = graph.values[id];
    if (value.kind != ValueKind::parameter) continue;
    std::vector<float> data(static_cast<size_t>(element_count(value.type)));
    nn::initialize(data, value.type.shape, {.deviation = 1}, value.name, 9);
    feeds[id] = {data.begin(), data.end()};
  }
  const RefValues values = evaluate(graph, feeds);
  return {values.at(model.loss)[0], values.at(model.logits)};
}

TEST(Mlp, mean_is_over_the_tokens_that_are_there) {
  const Outcome tight = run({{1, 2}}, 2, {1});
  const Outcome padded = run({{1, 2}}, 5, {1});
  const Outcome doubled = run({{1, 2, 1, 2}}, 4, {1});
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(padded.logits[i], tight.logits[i], 1e-14);
    EXPECT_NEAR(doubled.logits[i], tight.logits[i], 1e-14);
  }
  EXPECT_NE(run({{1, 3}}, 2, {1}).logits, tight.logits);
}

TEST(Mlp, padding_rows_without_tokens_are_finite_and_do_not_count) {
  const Outcome alone = run({{1, 2}, {4}}, 3, {1, 1});
  const Outcome with_padding = run({{1, 2}, {4}, {}}, 3, {1, 1, 0});
  EXPECT_TRUE(std::isfinite(with_padding.logits[4]) && std::isfinite(with_padding.logits[5]));
  EXPECT_EQ(with_padding.loss, alone.loss);
}

TEST(Mlp, parameters_have_names_and_shapes) {
  GraphBuilder builder(op_registry(), "mlp");
  MlpConfig config = small_config();
  config.embedding_size = 0;
  config.hidden_sizes = {5, 4};
  config.dropout = 0.1;
  const SequenceModel model =
      tasks::with_task(builder, build_mlp_classifier(builder, config, {2, 3}, {}));
  const auto shape_of = [&](const std::string& name) {
    return builder.shape(builder.graph().find(name));
  };
  EXPECT_EQ(shape_of("embeddings.weight"), (Shape{6, 5}));
  EXPECT_EQ(shape_of("layers.0.weight"), (Shape{5, 5}));
  EXPECT_EQ(shape_of("layers.1.weight"), (Shape{4, 5}));
  EXPECT_EQ(shape_of("layers.1.bias"), (Shape{4}));
  EXPECT_EQ(shape_of("classifier.weight"), (Shape{2, 4}));
  EXPECT_NE(model.rng, kNone);
  EXPECT_EQ(model.token_type_ids, kNone);
}

std::vector<float> filled(const Shape& shape, const InitRule& rule, const std::string& name,
                          uint64_t seed, int threads = 1) {
  std::vector<float> weight(static_cast<size_t>(element_count(shape)), 77);
  nn::initialize(weight, shape, rule, name, seed, threads);
  return weight;
}

TEST(Initial_weights, depend_on_seed_and_name_alone) {
  const InitRule rule = {.deviation = 0.02};
  const Shape shape = {301, 200};
  const std::vector<float> base = filled(shape, rule, "a.weight", 1);
  EXPECT_EQ(filled(shape, rule, "a.weight", 1, 2), base);
  EXPECT_NE(filled(shape, rule, "b.weight", 1), base);
  EXPECT_NE(filled(shape, rule, "a.weight", 2), base);
  const std::vector<float> shorter = filled({3, 5}, rule, "a.weight", 1);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), base.begin()));
}

TEST(Initial_weights, are_normal) {
  const Shape shape = {400, 250};
  const std::vector<float> weight = filled(shape, {.deviation = 0.5}, "w", 1);
  double mean = 0;
  double square = 0;
  double fourth = 0;
  for (float w : weight) {
    const double z = static_cast<double>(w) / 0.5;
    mean += z;
    square += z * z;
    fourth += z * z * z * z;
  }
  const auto count = static_cast<double>(weight.size());
  EXPECT_NEAR(mean / count, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(square / count, 1, 5 * std::sqrt(2 / count));
  EXPECT_NEAR(fourth / count, 3, 5 * std::sqrt(96 / count));
}

TEST(Initial_weights, constants_and_the_padding_row) {
  EXPECT_EQ(filled({3}, {.constant = 1}, "w", 1), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(filled({2}, {}, "w", 1), (std::vector<float>{0, 0}));
  const std::vector<float> table = filled({3, 2}, {.deviation = 1, .zero_row = 1}, "w", 1);
  EXPECT_EQ(table[2], 0);
  EXPECT_EQ(table[3], 0);
  EXPECT_NE(table[1], 0);
  EXPECT_NE(table[4], 0);
}

}  // namespace
}  // namespace snug::models
