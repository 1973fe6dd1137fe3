// SPDX-License-Identifier: Apache-2.0
// Structure of the DeBERTa graph, its config.json and initial weights. Numbers against Hugging
// Face: tests/nn/deberta_parity_test.cc.
#include "models/deberta/deberta.h"

#include <gtest/gtest.h>

#include "graph/verify.h"
#include "ops/registry.h"
#include "snug/error.h"
#include "tasks/testing.h"

namespace snug::models {
namespace {

// As microsoft/deberta-v3-base has it.
constexpr const char* kPublished = R"({
  "model_type": "deberta-v2", "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu",
  "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02,
  "intermediate_size": 3072, "max_position_embeddings": 512, "relative_attention": true,
  "position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": true,
  "pos_att_type": "p2c|c2p", "layer_norm_eps": 1e-7, "max_relative_positions": -1,
  "position_biased_input": false, "num_attention_heads": 12, "num_hidden_layers": 12,
  "type_vocab_size": 0, "vocab_size": 128100})";

DebertaConfig preset(const char* name) { return find_deberta_preset(name).value(); }

int64_t parameters_of(const DebertaConfig& config) {
  GraphBuilder builder(op_registry(), "deberta");
  (void)build_deberta_classifier(builder, config, {1, 8}, {.training = false});
  verify(builder.graph());
  int64_t count = 0;
  for (const Value& value : builder.graph().values) {
    if (value.kind == ValueKind::parameter) count += element_count(value.type);
  }
  return count;
}

std::string refusal(const std::string& json) {
  try {
    (void)deberta_config_from_json(json, "config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// DebertaV2ForSequenceClassification with two labels.
TEST(Deberta, presets_have_the_published_sizes) {
  EXPECT_EQ(parameters_of(preset("deberta-v3-base")), 184423682);
  EXPECT_EQ(parameters_of(preset("deberta-v3-xsmall")), 70830722);
}

TEST(Deberta, the_published_configuration_is_the_preset) {
  std::vector<std::string> ignored;
  DebertaConfig read = deberta_config_from_json(kPublished, "config.json", &ignored);
  EXPECT_TRUE(ignored.empty());
  const DebertaConfig wanted = preset("deberta-v3-base");
  EXPECT_TRUE(read == wanted);
  read.labels = {"no", "yes"};
  EXPECT_TRUE(deberta_config_from_json(deberta_config_to_json(read), "config.json") == read);
}

TEST(Deberta, tables_and_scores_are_those_that_are_asked_for) {
  DebertaConfig config = preset("deberta-v3-tiny");
  config.vocab_size = 50;
  const int64_t both = parameters_of(config);
  config.position_to_content = false;
  EXPECT_EQ(parameters_of(config), both);  // shared projections
  config.position_to_content = true;
  config.share_att_key = false;
  EXPECT_EQ(parameters_of(config), both + 2 * 2 * (128 * 128 + 128));
  config.conv_kernel_size = 3;
  EXPECT_EQ(parameters_of(config), both + 2 * 2 * (128 * 128 + 128) + 3 * 128 * 128 + 3 * 128);
}

TEST(Deberta, other_mathematics_is_refused_by_name) {
  const std::string begin = R"({"model_type": "deberta-v2", )";
  for (const auto& [field, named] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"("pos_att_type": "c2p|p2p"})", "p2p"},
           {R"("z_steps": 2})", "z_steps"},
           {R"("norm_rel_ebd": "batch_norm"})", "batch_norm"},
           {R"("relative_attention": true})", "pos_att_type"},
           {R"("norm_rel_ebd": "layer_norm"})", "norm_rel_ebd"},
           {R"("conv_kernel_size": 4})", "conv_kernel_size"},
           {R"("pooler_hidden_size": 3})", "pooler_hidden_size"},
           {R"("position_buckets": 1})", "position_buckets"},
           {R"("hidden_act": "mish"})", "mish"},
           {R"("is_decoder": true})", "is_decoder"}}) {
    EXPECT_NE(refusal(begin + field).find(named), std::string::npos)
        << field << ": " << refusal(begin + field);
  }
  EXPECT_NE(refusal(R"({"model_type": "deberta"})").find("DeBERTa v1"), std::string::npos);
}

TEST(Deberta, too_long_a_text_is_refused_where_positions_end) {
  DebertaConfig config = preset("deberta-v3-tiny");
  EXPECT_EQ(config.max_positions(), 0);  // distances beyond the last bucket are the last
  config.position_biased_input = true;
  EXPECT_EQ(config.max_positions(), 512);
  GraphBuilder builder(op_registry(), "deberta");
  EXPECT_THROW((void)build_deberta_classifier(builder, config, {1, 513}, {}), Error);
}

}  // namespace
}  // namespace snug::models
