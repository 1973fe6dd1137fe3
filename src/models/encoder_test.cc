// SPDX-License-Identifier: Apache-2.0
// RoBERTa, ELECTRA and ALBERT: sizes of their presets, config.json, what is refused. Numbers
// against Hugging Face: tests/nn/encoder_parity_test.cc.
#include <gtest/gtest.h>

#include "graph/verify.h"
#include "models/albert/albert.h"
#include "models/electra/electra.h"
#include "models/registry.h"
#include "models/roberta/roberta.h"
#include "ops/registry.h"
#include "snug/error.h"

namespace snug::models {
namespace {

int64_t parameters_of(const char* type, const char* preset) {
  RunConfig run;
  run.model = preset;
  const ArchitecturePtr architecture = family_of_type(type)->preset(run);
  GraphBuilder builder(op_registry(), type);
  (void)architecture->build(builder, {1, 8}, {.training = false});
  verify(builder.graph());
  int64_t count = 0;
  for (const Value& value : builder.graph().values) {
    if (value.kind == ValueKind::parameter) count += element_count(value.type);
  }
  return count;
}

std::string refusal(const char* type, const std::string& fields) {
  try {
    (void)family_of_type(type)->read("{\"model_type\": \"" + std::string(type) + "\", " + fields,
                                     "config.json", nullptr);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// The classes ...ForSequenceClassification with two labels.
TEST(Encoders, presets_have_the_published_sizes) {
  EXPECT_EQ(parameters_of("roberta", "roberta-base"), 124647170);
  EXPECT_EQ(parameters_of("roberta", "distilroberta-base"), 82119938);
  EXPECT_EQ(parameters_of("xlm-roberta", "xlm-roberta-base"), 278045186);
  EXPECT_EQ(parameters_of("electra", "electra-small"), 13549314);
  EXPECT_EQ(parameters_of("electra", "electra-base"), 109483778);
  EXPECT_EQ(parameters_of("albert", "albert-base"), 11685122);
  EXPECT_EQ(parameters_of("albert", "albert-xxlarge"), 222603778);
}

TEST(Encoders, one_network_of_three_names_keeps_its_own) {
  for (const auto& [type, classes] : {std::pair{"roberta", "RobertaForSequenceClassification"},
                                      {"xlm-roberta", "XLMRobertaForSequenceClassification"},
                                      {"camembert", "CamembertForSequenceClassification"}}) {
    const std::string json = std::string(R"({"model_type": ")") + type +
                             R"(", "id2label": {"0": "no", "1": "yes"}, "type_vocab_size": 1})";
    const RobertaConfig config = roberta_config_from_json(json, "config.json");
    const std::string text = roberta_config_to_json(config);
    EXPECT_NE(text.find(classes), std::string::npos) << text;
    EXPECT_TRUE(roberta_config_from_json(text, "config.json") == config);
  }
}

TEST(Encoders, positions_of_roberta_begin_behind_the_padding) {
  RunConfig run;
  run.model = "roberta-base";
  const ArchitecturePtr architecture = family_of_type("roberta")->preset(run);
  EXPECT_EQ(architecture->traits().max_positions, 512);
  const ArchitecturePtr other = architecture->with_facts({.vocab_size = 100, .pad_token_id = 0});
  EXPECT_EQ(other->traits().max_positions, 513);
  EXPECT_NE(refusal("roberta", R"("pad_token_id": null})").find("pad_token_id"), std::string::npos);
  EXPECT_NE(refusal("roberta", R"("max_position_embeddings": 2})").find("no position behind"),
            std::string::npos);
}

TEST(Encoders, shared_layers_of_albert_are_one_weight_each) {
  AlbertConfig config;
  config.vocab_size = 30;
  config.embedding_size = 6;
  config.hidden_size = 8;
  config.num_attention_heads = 2;
  config.intermediate_size = 10;
  const auto count = [&] {
    GraphBuilder builder(op_registry(), "albert");
    (void)build_albert_classifier(builder, config, {2, 5}, {.training = false});
    int64_t weights = 0;
    for (const Value& value : builder.graph().values)
      weights += value.kind == ValueKind::parameter ? 1 : 0;
    return weights;
  };
  const int64_t one_group = count();
  config.num_hidden_layers = 3;
  EXPECT_EQ(count(), one_group);
  config.num_hidden_groups = 3;
  EXPECT_EQ(count(), one_group + 2 * 16);
  EXPECT_NE(refusal("albert", R"("num_hidden_groups": 13})").find("num_hidden_groups"),
            std::string::npos);
}

TEST(Encoders, other_mathematics_is_refused_by_name) {
  for (const char* type : {"roberta", "electra", "albert"}) {
    for (const auto& [field, named] : std::initializer_list<std::pair<const char*, const char*>>{
             {R"("position_embedding_type": "relative_key"})", "position_embedding_type"},
             {R"("is_decoder": true})", "is_decoder"},
             {R"("hidden_act": "mish"})", "mish"},
             {R"("pruned_heads": {"0": [1]}})", "pruned_heads"},
             {R"("num_attention_heads": 7})", "num_attention_heads"}}) {
      EXPECT_NE(refusal(type, field).find(named), std::string::npos)
          << type << " " << refusal(type, field);
    }
  }
}

}  // namespace
}  // namespace snug::models
