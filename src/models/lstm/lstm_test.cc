// SPDX-License-Identifier: Apache-2.0
// The LSTM's behaviour beside its goldens: states stop at a row's last token, other buckets and
// dropout, what crosses from step to step, initial weights.
#include "models/lstm/lstm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "backend/reference/reference.h"
#include "graph/verify.h"
#include "nn/init.h"
#include "ops/registry.h"
#include "tasks/testing.h"

namespace snug::models {
namespace {

LstmConfig small_config(int64_t layers) {
  LstmConfig config;
  config.vocab_size = 6;
  config.embedding_size = 3;
  config.hidden_size = 4;
  config.num_hidden_layers = layers;
  return config;
}

using Rows = std::vector<std::vector<double>>;

// Logits of rows that are padded with token 0 to `length`; weights are functions of their names.
std::vector<double> logits_of(const LstmConfig& config, const Rows& rows, int64_t length) {
  GraphBuilder builder(op_registry(), "lstm");
  const auto count = static_cast<int64_t>(rows.size());
  const SequenceModel model =
      tasks::with_task(builder, build_lstm_classifier(builder, config, {count, length}, {}));
  verify(builder.graph());
  RefValues feeds;
  for (const std::vector<double>& row : rows) {
    for (size_t i = 0; i < static_cast<size_t>(length); ++i) {
      feeds[model.input_ids].push_back(i < row.size() ? row[i] : 0);
      feeds[model.attention_mask].push_back(i < row.size() ? 1 : 0);
    }
  }
  feeds[model.labels] = std::vector<double>(rows.size(), 1);
  feeds[model.row_weights] = std::vector<double>(rows.size(), 1);
  feeds[model.inv_total] = {1};
  if (model.rng != kNone) feeds[model.rng] = {7, 1, 0};
  const Graph& graph = builder.graph();
  for (const ValueId id : graph.values.ids()) {
    const Value& value = graph.values[id];
    if (value.kind != ValueKind::parameter) continue;
    std::vector<float> data(static_cast<size_t>(element_count(value.type)));
    nn::initialize(data, value.type.shape, {.deviation = 1}, value.name, 9);
    feeds[id] = {data.begin(), data.end()};
  }
  return evaluate(graph, feeds).at(model.logits);
}

TEST(Lstm, a_row_does_not_depend_on_the_others_nor_on_the_length_of_its_bucket) {
  for (const int64_t layers : {1, 2}) {
    for (const double dropout : {0.0, 0.5}) {
      LstmConfig config = small_config(layers);
      config.dropout = dropout;
      const std::vector<double> row = {3, 1, 4};
      const std::vector<double> alone = logits_of(config, {row}, 3);
      EXPECT_EQ(logits_of(config, {row}, 8), alone) << layers << " " << dropout;
      std::vector<double> first = logits_of(config, {row, {5, 2, 2, 1}}, 5);
      first.resize(alone.size());
      EXPECT_EQ(first, alone) << layers << " " << dropout;
    }
  }
}

TEST(Lstm, reads_every_token_in_order) {
  const LstmConfig config = small_config(1);
  std::set<std::vector<double>> different;
  for (const std::vector<double>& row : Rows{{1, 2, 3}, {3, 2, 1}, {1, 2}, {1, 2, 3, 3}, {2, 2, 3}})
    different.insert(logits_of(config, {row}, 4));
  EXPECT_EQ(different.size(), 5u);
}

// What the planner relies on: in the middle of the net nothing but h and c of every layer crosses
// from one step to the next, beside the sum of the biases.
TEST(Lstm, states_alone_cross_between_steps) {
  for (const int64_t layers : {1, 3}) {
    GraphBuilder builder(op_registry(), "lstm");
    (void)build_lstm_classifier(builder, small_config(layers), {2, 6}, {.training = false});
    const Graph& graph = builder.graph();
    const auto step_of = [&](const Node& node) {
      const std::string& scope = node.scope;
      return scope.starts_with("lstm.step.") ? std::stoi(scope.substr(10)) : -1;
    };
    std::set<ValueId> crossing;
    for (const Node& node : graph.nodes) {
      for (const ValueId input : node.inputs) {
        if (input == kNone || graph.value(input).producer == kNone) continue;
        if (step_of(graph.node(graph.value(input).producer)) == 2 && step_of(node) > 2)
          crossing.insert(input);
      }
    }
    EXPECT_EQ(static_cast<int64_t>(crossing.size()), 2 * layers);
    for (const ValueId id : crossing)
      EXPECT_EQ(*graph.node(graph.value(id).producer).op->name, "lstm_cell");
  }
}

TEST(Lstm, initial_weights_follow_PyTorch) {
  LstmConfig config;
  config.hidden_size = 300;
  config.pad_token_id = 2;
  EXPECT_EQ(lstm_init_rule(config, "embeddings.weight", {8, 4}),
            (InitRule{.deviation = 1, .zero_row = 2}));
  for (const char* name : {"lstm.weight_ih_l0", "lstm.weight_hh_l1", "lstm.bias_ih_l0"})
    EXPECT_NEAR(lstm_init_rule(config, name, {1200, 300}).deviation, 1.0 / 30, 1e-12) << name;
  EXPECT_NEAR(lstm_init_rule(config, "classifier.weight", {2, 400}).deviation, 0.05, 1e-12);
  EXPECT_EQ(lstm_init_rule(config, "classifier.bias", {2}), InitRule{});
}

}  // namespace
}  // namespace snug::models
