// SPDX-License-Identifier: Apache-2.0
#include "optim/groups.h"

#include <gtest/gtest.h>

#include "snug/error.h"

namespace snug::optim {
namespace {

using Layers = std::vector<int64_t>;

TEST(Layers_of, follow_the_numbers_in_names) {
  EXPECT_EQ(layers_of({"bert.embeddings.word_embeddings.weight", "bert.embeddings.LayerNorm.bias",
                       "bert.encoder.layer.0.attention.self.query.weight",
                       "bert.encoder.layer.0.output.dense.bias", "bert.encoder.layer.1.output.bias",
                       "bert.pooler.dense.weight", "classifier.bias"}),
            (Layers{0, 0, 1, 1, 2, 3, 3}));
  EXPECT_EQ(layers_of({"conv1.weight", "bn1.weight", "layer1.0.conv1.weight", "layer1.1.bn2.bias",
                       "layer2.0.downsample.0.weight", "fc.weight"}),
            (Layers{0, 0, 1, 2, 3, 4}));
  EXPECT_EQ(layers_of({"features.0.weight", "features.0.bias", "features.3.weight",
                       "classifier.0.weight", "classifier.6.bias"}),
            (Layers{1, 1, 2, 3, 4}));
  EXPECT_EQ(layers_of({"embedding.weight", "lstm.weight_ih_l0", "lstm.bias_hh_l0",
                       "lstm.weight_ih_l0_reverse", "lstm.weight_hh_l1", "classifier.weight"}),
            (Layers{0, 1, 1, 1, 2, 3}));
  EXPECT_EQ(layers_of({"a.weight", "b_last.weight"}), (Layers{0, 0}));
  // Adapters stand behind the head, which is above them all the same.
  EXPECT_EQ(layers_of({"embeddings.weight", "layer.0.query.weight", "layer.1.query.weight",
                       "classifier.weight", "layer.0.query.lora_A.weight",
                       "layer.1.query.lora_A.weight"}),
            (Layers{0, 1, 2, 3, 1, 2}));
  EXPECT_EQ(layers_of({"layer.0.query.weight", "classifier.weight", "layer.0.query.lora_A.weight"}),
            (Layers{1, 2, 1}));
  EXPECT_EQ(layers_of({}), Layers{});
}

TEST(Assign_groups, the_first_match_wins_and_the_rest_falls_by_layer) {
  const std::vector<std::string> names = {"embed.weight",   "layer.0.weight", "layer.0.bias",
                                          "layer.1.weight", "head.weight",    "head.bias"};
  const ParameterGroups groups = assign_groups(names, {.learning_rate = 0.1,
                                                       .rules = {{"head.*", 0.5, std::nullopt},
                                                                 {"*.bias", std::nullopt, 0.25},
                                                                 {"layer.1.*", std::nullopt, 0.0}},
                                                       .layer_decay = 0.5});
  const auto rate = [&](const char* name) { return groups.rates[groups.members.at(name).rate]; };
  EXPECT_EQ(groups.rates[0], 0.1);
  EXPECT_EQ(rate("embed.weight"), 0.1 * 0.125);
  EXPECT_EQ(rate("layer.0.weight"), 0.1 * 0.25);
  EXPECT_EQ(rate("layer.1.weight"), 0.05);
  EXPECT_EQ(rate("head.bias"), 0.5);
  EXPECT_EQ(groups.members.at("layer.0.bias").weight_decay, 0.25);
  EXPECT_EQ(groups.members.at("layer.1.weight").weight_decay, 0.0);
  EXPECT_FALSE(groups.members.at("head.bias").weight_decay);
  const ParameterGroups plain = assign_groups(names, {.learning_rate = 0.1});
  EXPECT_EQ(plain.rates, std::vector<double>{0.1});
}

TEST(Assign_groups, a_pattern_without_effect_is_an_error) {
  const auto refused = [](const std::vector<GroupRule>& rules, const std::string& text) {
    try {
      (void)assign_groups({"a.weight", "a.bias"}, {.learning_rate = 1, .rules = rules});
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_config);
      EXPECT_EQ(error.where(), "param_groups");
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  refused({{"b.*", 1, std::nullopt}}, "the pattern 'b.*' matches no weight of the model");
  refused({{"a.*", 1, std::nullopt}, {"*.bias", 1, std::nullopt}},
          "the pattern '*.bias' comes after patterns that match all its weights");
}

}  // namespace
}  // namespace snug::optim
