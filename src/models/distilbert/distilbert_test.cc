// SPDX-License-Identifier: Apache-2.0
// Structure of the DistilBERT graph, its config.json and initial weights. Numbers against Hugging
// Face: tests/nn/distilbert_parity_test.cc.
#include "models/distilbert/distilbert.h"

#include <gtest/gtest.h>

#include <set>

#include "graph/verify.h"
#include "models/registry.h"
#include "ops/fed_names.h"
#include "ops/registry.h"
#include "snug/error.h"
#include "tasks/testing.h"

namespace snug::models {
namespace {

DistilbertConfig small_config() {
  DistilbertConfig config;
  config.vocab_size = 19;
  config.dim = 8;
  config.n_layers = 2;
  config.n_heads = 2;
  config.hidden_dim = 10;
  config.max_position_embeddings = 12;
  return config;
}

Graph graph_of(const DistilbertConfig& config, const BuildOptions& options = {}) {
  GraphBuilder builder(op_registry(), "distilbert");
  const SequenceModel model = tasks::with_task(
      builder, build_distilbert_classifier(builder, config, {2, 5}, options), options.training);
  EXPECT_EQ(model.token_type_ids, kNone);
  verify(builder.graph());
  return builder.take();
}

int64_t dropouts_of(const DistilbertConfig& config) {
  int64_t count = 0;
  for (const Node& node : graph_of(config).nodes) count += *node.op->name == "dropout" ? 1 : 0;
  return count;
}

// DistilBertForSequenceClassification with two labels.
TEST(Distilbert, the_preset_has_the_published_size) {
  RunConfig run;
  run.model = "distilbert-base";
  GraphBuilder builder(op_registry(), "distilbert");
  (void)family_of_type("distilbert")->preset(run)->build(builder, {1, 8}, {.training = false});
  int64_t count = 0;
  for (const Value& value : builder.graph().values) {
    if (value.kind == ValueKind::parameter) count += element_count(value.type);
  }
  EXPECT_EQ(count, 66955010);
}

TEST(Distilbert, dropout_is_where_the_original_has_it) {
  DistilbertConfig config = small_config();
  EXPECT_EQ(dropouts_of(config), 4);  // embeddings, two feed-forward nets, head
  config.seq_classif_dropout = 0;
  EXPECT_EQ(dropouts_of(config), 3);
  config.dropout = 0;
  EXPECT_EQ(dropouts_of(config), 0);
  EXPECT_NE(graph_of(config).find(kRandomKey), kNone);  // of the attention
  config.attention_dropout = 0;
  EXPECT_EQ(graph_of(config).find(kRandomKey), kNone);
}

TEST(Distilbert, fields_are_read_and_unknown_ones_named) {
  std::vector<std::string> ignored;
  const DistilbertConfig config = distilbert_config_from_json(
      R"({"activation": "relu", "architectures": ["DistilBertForMaskedLM"], "attention_dropout": 0.2,
          "dim": 24, "dropout": 0.3, "hidden_dim": 96, "initializer_range": 0.01,
          "max_position_embeddings": 64, "model_type": "distilbert", "n_heads": 4, "n_layers": 3,
          "pad_token_id": null, "qa_dropout": 0.1, "seq_classif_dropout": 0.4,
          "sinusoidal_pos_embds": false, "tie_weights_": true, "transformers_version": "5",
          "vocab_size": 100, "num_labels": 5, "colour": "red"})",
      "config.json", &ignored);
  const DistilbertConfig wanted = {.vocab_size = 100,
                                   .dim = 24,
                                   .n_layers = 3,
                                   .n_heads = 4,
                                   .hidden_dim = 96,
                                   .activation = "relu",
                                   .dropout = 0.3,
                                   .attention_dropout = 0.2,
                                   .seq_classif_dropout = 0.4,
                                   .max_position_embeddings = 64,
                                   .initializer_range = 0.01,
                                   .pad_token_id = -1,
                                   .num_labels = 5,
                                   .labels = {},
                                   .head = {}};
  EXPECT_EQ(config, wanted);
  EXPECT_EQ(ignored, std::vector<std::string>{"colour"});
}

TEST(Distilbert, other_mathematics_is_refused_by_name) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"sinusoidal_pos_embds": true})", "\"sinusoidal_pos_embds\" is true: fixed positions"},
      {R"({"activation": "silu"})", "\"activation\" is \"silu\", which is not supported"},
      {R"({"problem_type": "ranking"})", "\"problem_type\" is \"ranking\""},
      {R"({"model_type": "bert"})", "\"model_type\" is \"bert\": the model is not DistilBERT"},
      {R"({"hidden_size": 128})", "\"hidden_size\" is not how DistilBERT's config.json calls it"},
      {R"({"is_decoder": true})", "a decoder's causal mask"},
      {R"({"pruned_heads": {"0": [1]}})", "pruned heads"},
      {R"({"quantization_config": {}})", "quantized weights"},
      {R"({"dropout": 1})", "\"dropout\" must be at least 0 and below 1"},
  };
  for (const auto& [json, text] : cases) {
    try {
      (void)distilbert_config_from_json(json, "config.json");
      ADD_FAILURE() << json;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_data) << json;
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW((void)distilbert_config_from_json(R"({"dim": 10, "n_heads": 3})", "f"), Error);
  GraphBuilder builder(op_registry(), "distilbert");
  EXPECT_THROW((void)build_distilbert_classifier(builder, small_config(), {1, 13}, {}), Error);
}

TEST(Distilbert, weights_begin_as_hugging_face_s) {
  const DistilbertConfig config = small_config();
  const InitRule normal = {.deviation = 0.02};
  InitRule words = normal;
  words.zero_row = 0;
  const InitRule one = {.constant = 1};
  const std::string layer = "distilbert.transformer.layer.0.";
  const auto rule = [&](const std::string& name, const Shape& shape) {
    return distilbert_init_rule(config, name, shape);
  };
  EXPECT_EQ(rule("distilbert.embeddings.word_embeddings.weight", {19, 8}), words);
  EXPECT_EQ(rule("distilbert.embeddings.position_embeddings.weight", {12, 8}), normal);
  EXPECT_EQ(rule(layer + "sa_layer_norm.weight", {8}), one);
  EXPECT_EQ(rule(layer + "output_layer_norm.bias", {8}), InitRule());
  EXPECT_EQ(rule("pre_classifier.weight", {8, 8}), normal);
  EXPECT_EQ(rule("classifier.bias", {2}), InitRule());
}

TEST(Distilbert, the_head_is_both_of_its_layers) {
  const ModelFamily& family = *family_of_type("distilbert");
  EXPECT_EQ(family.role("pre_classifier.weight"), WeightRole::head);
  EXPECT_EQ(family.role("classifier.bias"), WeightRole::head);
  EXPECT_EQ(family.role("distilbert.embeddings.LayerNorm.weight"), WeightRole::body);
  EXPECT_FALSE(family.is_own("vocab_transform.weight"));
  EXPECT_TRUE(family.is_own("distilbert.transformer.layer.9.ffn.lin1.bias"));
}

}  // namespace
}  // namespace snug::models
