// SPDX-License-Identifier: Apache-2.0
// Structure of the ModernBERT graph, its config.json and initial weights. Numbers against Hugging
// Face: tests/nn/modernbert_parity_test.cc.
#include "models/modernbert/modernbert.h"

#include <gtest/gtest.h>

#include "graph/verify.h"
#include "models/registry.h"
#include "ops/registry.h"
#include "snug/error.h"
#include "tasks/testing.h"

namespace snug::models {
namespace {

ModernbertConfig small_config() {
  ModernbertConfig config;
  config.vocab_size = 19;
  config.hidden_size = 8;
  config.intermediate_size = 6;
  config.num_hidden_layers = 4;
  config.num_attention_heads = 2;
  config.max_position_embeddings = 12;
  config.pad_token_id = 0;
  return config;
}

Graph graph_of(const ModernbertConfig& config, const BuildOptions& options = {}) {
  GraphBuilder builder(op_registry(), "modernbert");
  const SequenceModel model = tasks::with_task(
      builder, build_modernbert_classifier(builder, config, {2, 5}, options), options.training);
  EXPECT_EQ(model.token_type_ids, kNone);
  verify(builder.graph());
  return builder.take();
}

std::string refusal(const std::string& json) {
  try {
    (void)modernbert_config_from_json(json, "config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

int64_t parameters_of(const std::string& preset) {
  RunConfig run;
  run.model = preset;
  GraphBuilder builder(op_registry(), "modernbert");
  (void)family_of_type("modernbert")->preset(run)->build(builder, {1, 8}, {.training = false});
  int64_t count = 0;
  for (const Value& value : builder.graph().values) {
    if (value.kind == ValueKind::parameter) count += element_count(value.type);
  }
  return count;
}

// Without the classifier: encoder and prediction head of the published checkpoints.
TEST(Modernbert, presets_have_the_published_sizes) {
  EXPECT_EQ(parameters_of("modernbert-base") - (768 * 2 + 2), 149014272 + 768 * 768 + 768);
  EXPECT_EQ(parameters_of("modernbert-large") - (1024 * 2 + 2), 394781696 + 1024 * 1024 + 1024);
}

TEST(Modernbert, windows_and_thetas_follow_the_kind_of_layer) {
  const Graph graph = graph_of(small_config(), {.training = false});
  std::vector<int64_t> windows;
  std::vector<double> thetas;
  for (const Node& node : graph.nodes) {
    if (*node.op->name == "attention") windows.push_back(node.attrs.int64("window"));
    if (*node.op->name == "rotary_qkv") thetas.push_back(node.attrs.real("theta"));
  }
  EXPECT_EQ(windows, (std::vector<int64_t>{0, 64, 64, 0}));
  EXPECT_EQ(thetas, (std::vector<double>{160000, 10000, 10000, 160000}));
}

TEST(Modernbert, both_forms_of_a_configuration_are_read) {
  const std::string sizes =
      R"("model_type": "modernbert", "num_hidden_layers": 4, "id2label": {"0": "no", "1": "yes"}, )";
  std::vector<std::string> ignored;
  const ModernbertConfig older = modernbert_config_from_json(
      "{" + sizes + R"("global_attn_every_n_layers": 2, "global_rope_theta": 500.0,
        "local_rope_theta": 20.0, "local_attention": 64, "layer_norm_eps": 1e-05,
        "reference_compile": true, "colour": "red"})",
      "config.json", &ignored);
  const ModernbertConfig newer = modernbert_config_from_json(
      "{" + sizes + R"("layer_types": ["full_attention", "sliding_attention", "full_attention",
        "sliding_attention"], "rope_parameters": {
          "full_attention": {"rope_type": "default", "rope_theta": 500.0},
          "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}},
        "local_attention": 64, "sliding_window": 32})",
      "config.json");
  EXPECT_TRUE(older == newer);
  EXPECT_EQ(older.is_local, (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(ignored, std::vector<std::string>{"colour"});
  const ModernbertConfig same = modernbert_config_from_json(
      "{" + sizes + R"("global_rope_theta": 500.0, "local_rope_theta": null})", "config.json");
  EXPECT_EQ(same.local_rope_theta, 500.0);  // as version 4 of transformers reads it
  EXPECT_TRUE(modernbert_config_from_json(modernbert_config_to_json(older), "config.json") ==
              older);
}

TEST(Modernbert, other_mathematics_is_refused_by_name) {
  const std::string begin = R"({"model_type": "modernbert", "num_hidden_layers": 2, )";
  for (const auto& [field, named] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"("rope_scaling": {"factor": 2.0}})", "rope_scaling"},
           {R"("rope_parameters": {"full_attention": {"rope_type": "yarn"}}})", "rope_type"},
           {R"("rope_parameters": {"rope_type": "default", "rope_theta": 5.0}})",
            "no kind of layer"},
           {R"("layer_types": ["full_attention"]})", "layer_types"},
           {R"("layer_types": ["full_attention", "chunked_attention"]})", "chunked_attention"},
           {R"("hidden_activation": "silu"})", "hidden_activation"},
           {R"("hidden_activation": "relu"})", "hidden_activation"},
           {R"("classifier_pooling": "max"})", "classifier_pooling"},
           {R"("sliding_window": 3})", "sliding_window"},
           {R"("head_dim": 32})", "head_dim"},
           {R"("is_decoder": true})", "is_decoder"},
           {R"("local_attention": 1})", "local_attention"},
           {R"("num_attention_heads": 256})", "num_attention_heads"}}) {
    EXPECT_NE(refusal(begin + field).find(named), std::string::npos) << refusal(begin + field);
  }
}

TEST(Modernbert, an_own_vocabulary_has_no_ids_beyond_its_end) {
  RunConfig run;
  run.model = "modernbert-tiny";
  const ArchitecturePtr preset = family_of_type("modernbert")->preset(run);
  const ArchitecturePtr own = preset->with_facts({.vocab_size = 400});
  EXPECT_NO_THROW(own->check("model"));
  const auto padding = [](const ArchitecturePtr& architecture) {
    return modernbert_config_from_json(architecture->config_json(), "config.json").pad_token_id;
  };
  EXPECT_EQ(padding(own), -1);
  EXPECT_EQ(padding(preset), ModernbertConfig().pad_token_id);
}

TEST(Modernbert, weights_begin_as_hugging_face_s) {
  const ModernbertConfig config = small_config();
  EXPECT_EQ(modernbert_init_rule(config, "model.layers.1.attn.Wqkv.weight", {24, 8}).deviation,
            0.02);
  EXPECT_NEAR(modernbert_init_rule(config, "model.layers.1.mlp.Wo.weight", {8, 6}).deviation,
              0.02 / std::sqrt(8.0), 1e-12);
  EXPECT_EQ(modernbert_init_rule(config, "model.final_norm.weight", {8}), InitRule::ones());
  EXPECT_EQ(
      modernbert_init_rule(config, "model.embeddings.tok_embeddings.weight", {19, 8}).zero_row, 0);
}

}  // namespace
}  // namespace snug::models
