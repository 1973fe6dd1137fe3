// SPDX-License-Identifier: Apache-2.0
// Structure of the BERT graph, its random keys and its independence of batch split and padding.
// Numbers against Hugging Face: tests/nn/bert_parity_test.cc.
#include "models/bert/bert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backend/reference/reference.h"
#include "graph/verify.h"
#include "ops/fed_names.h"
#include "ops/registry.h"
#include "snug/error.h"
#include "tasks/testing.h"

namespace snug::models {
namespace {

BertConfig small_config() {
  BertConfig config;
  config.vocab_size = 19;
  config.hidden_size = 8;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 10;
  config.max_position_embeddings = 12;
  config.num_labels = 3;
  return config;
}

struct Built {
  explicit Built(const BertConfig& config, BatchShape shape = {2, 5},
                 const BuildOptions& options = {})
      : model(tasks::with_task(builder, build_bert_classifier(builder, config, shape, options),
                               options.training)) {}
  [[nodiscard]] int64_t count(const std::string& op) const {
    const auto& nodes = builder.graph().nodes;
    return std::count_if(nodes.begin(), nodes.end(),
                         [&](const Node& node) { return *node.op->name == op; });
  }
  GraphBuilder builder{op_registry(), "bert"};
  SequenceModel model;
};

int64_t parameter_count(const BertConfig& config) {
  const Built built(config, {1, 8}, {.training = false});
  int64_t count = 0;
  for (const Value& value : built.builder.graph().values) {
    if (value.kind == ValueKind::parameter) count += element_count(value.type);
  }
  return count;
}

// Counts of BertForSequenceClassification with two labels.
TEST(Bert, presets_have_the_published_sizes) {
  EXPECT_EQ(parameter_count(bert_preset("bert-tiny")), 4386178);
  EXPECT_EQ(parameter_count(bert_preset("bert-mini")), 11171074);
  EXPECT_EQ(parameter_count(bert_preset("bert-base")), 109483778);
  EXPECT_EQ(parameter_count(bert_preset("bert-large")), 335143938);
}

TEST(Bert, graph_is_valid_and_has_its_scopes) {
  const Built built(small_config());
  verify(built.builder.graph());
  std::set<std::string> scopes;
  for (const Node& node : built.builder.graph().nodes) scopes.insert(node.scope);
  for (const char* scope :
       {"bert.embeddings", "bert.encoder.layer.0.attention.self",
        "bert.encoder.layer.1.intermediate", "bert.encoder.layer.1.output.LayerNorm", "bert.pooler",
        "classifier", "loss"}) {
    EXPECT_EQ(scopes.count(scope), 1u) << scope;
  }
  EXPECT_EQ(built.builder.graph().find("logits"), built.model.logits);
  EXPECT_EQ(built.builder.graph().find("loss"), built.model.loss);
}

TEST(Bert, random_nodes_have_keys_of_their_own) {
  const Built built(small_config());
  EXPECT_EQ(built.count("dropout"), 1 + 2 * 2 + 1);  // embeddings, two a layer, classifier
  std::set<int64_t> ordinals;
  for (const Node& node : built.builder.graph().nodes) {
    if (node.attrs.has("ordinal")) ordinals.insert(node.attrs.int64("ordinal"));
  }
  EXPECT_EQ(ordinals.size(), 8u);  // with two attentions
}

TEST(Bert, without_dropout_nothing_is_random) {
  BertConfig config = small_config();
  const Built evaluation(config, {2, 5}, {.training = false});
  config.hidden_dropout_prob = 0;
  config.attention_probs_dropout_prob = 0;
  const Built trained(config);
  for (const Built* built : {&evaluation, &trained}) {
    EXPECT_EQ(built->count("dropout"), 0);
    EXPECT_EQ(built->model.rng, kNone);
    EXPECT_EQ(built->builder.graph().find(kRandomKey), kNone);
    for (const Node& node : built->builder.graph().nodes) {
      EXPECT_TRUE(*node.op->name != "attention" || node.inputs[4] == kNone);
    }
  }
  EXPECT_EQ(evaluation.model.loss, kNone);
  EXPECT_EQ(evaluation.builder.graph().find(kLabels), kNone);
}

TEST(Bert, classifier_has_a_dropout_rate_of_its_own) {
  BertConfig config = small_config();
  config.classifier_dropout = 0;
  EXPECT_EQ(Built(config).count("dropout"), 1 + 2 * 2);
  config.hidden_dropout_prob = 0;
  config.classifier_dropout = 0.5;
  EXPECT_EQ(Built(config).count("dropout"), 1);
}

// Logits of rows [first, first + rows) of a batch of four, padded to `length`, with dropout.
std::vector<double> logits_of(int64_t first, int64_t rows, int64_t length) {
  const Built built(small_config(), {rows, length});
  const std::vector<std::vector<double>> ids = {
      {2, 5, 7, 3}, {2, 9, 3}, {2, 11, 12, 13, 3}, {2, 3}};
  RefValues feeds;
  const auto size = static_cast<size_t>(rows * length);
  std::vector<double> input_ids(size, 0);
  std::vector<double> mask(size, 0);
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<double>& tokens = ids[static_cast<size_t>(first + row)];
    std::copy(tokens.begin(), tokens.end(), input_ids.begin() + row * length);
    std::fill_n(mask.begin() + row * length, tokens.size(), 1.0);
  }
  feeds[built.model.input_ids] = input_ids;
  feeds[built.model.token_type_ids] = std::vector<double>(size, 0);
  feeds[built.model.attention_mask] = mask;
  feeds[built.model.labels] = std::vector<double>(static_cast<size_t>(rows), 0);
  feeds[built.model.row_weights] = std::vector<double>(static_cast<size_t>(rows), 1);
  feeds[built.model.inv_total] = {0.25};
  feeds[built.model.rng] = {42, 7, static_cast<double>(first)};
  const Graph& graph = built.builder.graph();
  for (const ValueId id : graph.values.ids()) {
    const Value& value = graph.values[id];
    if (value.kind != ValueKind::parameter) continue;
    std::vector<float> weight(static_cast<size_t>(element_count(value.type)));
    nn::initialize(weight, value.type.shape, {.deviation = 0.5}, value.name, 3);
    feeds[id] = {weight.begin(), weight.end()};
  }
  return evaluate(graph, feeds).at(built.model.logits);
}

TEST(Bert, logits_with_dropout_do_not_depend_on_split_or_padding) {
  const std::vector<double> whole = logits_of(0, 4, 5);
  std::vector<double> pieces = logits_of(0, 1, 5);
  for (const std::vector<double>& rest : {logits_of(1, 2, 5), logits_of(3, 1, 12)}) {
    pieces.insert(pieces.end(), rest.begin(), rest.end());
  }
  ASSERT_EQ(whole.size(), pieces.size());
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], pieces[i], 1e-12) << i;
}

TEST(Bert, too_long_a_sequence_is_refused) {
  GraphBuilder builder(op_registry(), "bert");
  try {
    (void)build_bert_classifier(builder, small_config(), {1, 13}, {});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_config);
    EXPECT_EQ(error.where(), "max_seq_length");
    EXPECT_NE(std::string(error.what()).find("13 tokens are more than the model's 12 positions"),
              std::string::npos)
        << error.what();
  }
}

TEST(Bert, parameters_start_as_hugging_face_says) {
  const BertConfig config = small_config();
  EXPECT_EQ(encoder_init_rule(config, "bert.embeddings.word_embeddings.weight", {8, 8}),
            (InitRule{.deviation = 0.02, .constant = 0, .zero_row = 0}));
  EXPECT_EQ(encoder_init_rule(config, "bert.embeddings.position_embeddings.weight", {8, 8}),
            (InitRule{.deviation = 0.02, .constant = 0, .zero_row = -1}));
  EXPECT_EQ(encoder_init_rule(config, "bert.encoder.layer.0.output.LayerNorm.weight", {8}),
            (InitRule{.deviation = 0, .constant = 1, .zero_row = -1}));
  EXPECT_EQ(encoder_init_rule(config, "bert.encoder.layer.0.output.LayerNorm.bias", {8}),
            InitRule{});
  EXPECT_EQ(encoder_init_rule(config, "classifier.bias", {8}), InitRule{});
}

}  // namespace
}  // namespace snug::models
