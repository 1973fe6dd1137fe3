// SPDX-License-Identifier: Apache-2.0
// RoBERTa, XLM-R, ELECTRA and ALBERT against Hugging Face's in float64
// (tests/golden/encoders.safetensors, written by tools/golden/encoders.py): names and shapes,
// logits, loss, every gradient, ten updates. Rows are padded on the right and within.
#include <gtest/gtest.h>

#include "models/albert/albert.h"
#include "models/electra/electra.h"
#include "models/roberta/roberta.h"
#include "nn/golden_model.h"
#include "nn/golden_updates.h"
#include "tasks/testing.h"

namespace snug {
namespace {

constexpr models::BatchShape kShape = {.micro_batch = 3, .length = 7};

template <class Config>
Config common(int64_t hidden, int64_t layers, int64_t heads, int64_t positions) {
  Config config;
  config.vocab_size = 23;
  config.intermediate_size = 13;
  config.num_labels = 4;
  config.hidden_dropout_prob = 0;
  config.attention_probs_dropout_prob = 0;
  config.hidden_size = hidden;
  config.num_hidden_layers = layers;
  config.num_attention_heads = heads;
  config.max_position_embeddings = positions;
  return config;
}

models::SequenceModel build_roberta(GraphBuilder& builder, const models::BuildOptions& options,
                                    bool is_xlm) {
  auto config = is_xlm ? common<models::RobertaConfig>(10, 1, 5, 12)
                       : common<models::RobertaConfig>(12, 2, 3, 9);
  config.type_vocab_size = is_xlm ? 2 : 1;
  config.pad_token_id = is_xlm ? 3 : 1;
  config.layer_norm_eps = is_xlm ? 1e-12 : 1e-5;
  config.hidden_act = is_xlm ? "relu" : "gelu";
  return models::build_roberta_classifier(builder, config, kShape, options);
}

models::SequenceModel build_electra(GraphBuilder& builder, const models::BuildOptions& options) {
  auto config = common<models::ElectraConfig>(9, 2, 3, 8);
  config.embedding_size = 7;
  return models::build_electra_classifier(builder, config, kShape, options);
}

models::SequenceModel build_albert(GraphBuilder& builder, const models::BuildOptions& options,
                                   bool is_shared) {
  auto config = is_shared ? common<models::AlbertConfig>(8, 3, 2, 8)
                          : common<models::AlbertConfig>(15, 4, 5, 8);
  config.classifier_dropout_prob = 0;
  config.embedding_size = is_shared ? 8 : 6;
  if (!is_shared) {
    config.num_hidden_groups = 2;
    config.inner_group_num = 2;
  }
  return models::build_albert_classifier(builder, config, kShape, options);
}

class Encoder_parity : public GoldenModel {
 protected:
  Encoder_parity() : GoldenModel("encoders.safetensors") {}

  void build(bool training) {
    const models::BuildOptions options = {.training = training};
    const std::string name = GetParam();
    const auto body = [&] {
      if (name == "electra") return build_electra(builder_, options);
      if (name.starts_with("albert")) return build_albert(builder_, options, name != "albert");
      return build_roberta(builder_, options, name != "roberta");
    };
    model_ = tasks::with_task(builder_, body(), training);
    feeds_ = {{model_.input_ids, golden("input_ids")},
              {model_.attention_mask, golden("attention_mask")}};
    if (model_.token_type_ids != kNone) feeds_[model_.token_type_ids] = golden("token_type_ids");
    feed_golden(training, 3.5);
  }
};

TEST_P(Encoder_parity, weights_have_hugging_face_s_names_and_shapes) {
  build(false);
  expect_golden_names_and_shapes();
}

TEST_P(Encoder_parity, logits_loss_and_every_gradient_are_equal) {
  build(true);
  expect_golden_pass();
}

TEST_P(Encoder_parity, evaluation_is_equal) {
  build(false);
  expect_equal(evaluate(builder_.graph(), feeds_).at(model_.logits), "logits");
}

TEST_P(Encoder_parity, ten_updates_are_equal) {
  build(true);
  const optim::Options adamw =
      optim::make_options("adamw", {{"beta1", 0.9}, {"beta2", 0.98}, {"epsilon", 1e-7}}, 0.1);
  const GoldenUpdates found =
      run_golden_updates(builder_, model_, parameters_, feeds_, adamw, 0.01, {});
  expect_equal(found.losses, "losses");
  expect_equal(found.norms, "norms");
  for (const ValueId id : parameters_) expect_equal(feeds_.at(id), "updated/" + name_of(id));
}

INSTANTIATE_TEST_SUITE_P(Families, Encoder_parity,
                         testing::Values("roberta", "xlm-roberta", "electra", "albert",
                                         "albert-shared"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace snug
