// SPDX-License-Identifier: Apache-2.0
// DeBERTa against Hugging Face's in float64 (tests/golden/deberta.safetensors, written by
// tools/golden/deberta.py): names and shapes, logits, loss, every gradient, ten updates. Rows are
// padded.
#include "models/deberta/deberta.h"

#include <gtest/gtest.h>

#include "nn/golden_model.h"
#include "nn/golden_updates.h"
#include "tasks/testing.h"

namespace snug {
namespace {

// What the configurations of the goldens have in common.
models::DebertaConfig common() {
  models::DebertaConfig config;
  config.vocab_size = 23;
  config.intermediate_size = 13;
  config.max_position_embeddings = 16;
  config.num_labels = 4;
  config.hidden_dropout_prob = 0;
  config.attention_probs_dropout_prob = 0;
  config.relative_attention = true;
  return config;
}

void set_sizes(models::DebertaConfig& config, int64_t hidden, int64_t layers, int64_t heads) {
  config.hidden_size = hidden;
  config.num_hidden_layers = layers;
  config.num_attention_heads = heads;
}

models::DebertaConfig published(int64_t hidden, int64_t heads, int64_t buckets) {
  models::DebertaConfig config = common();
  set_sizes(config, hidden, 2, heads);
  config.position_buckets = buckets;
  config.has_relative_norm = true;
  config.share_att_key = true;
  config.content_to_position = true;
  config.position_to_content = true;
  config.position_biased_input = false;
  return config;
}

models::DebertaConfig config_of(const std::string& name) {
  if (name == "v3") return published(12, 3, 6);
  if (name == "v2") {
    models::DebertaConfig config = published(10, 2, 4);
    config.conv_kernel_size = 3;
    config.conv_groups = 2;
    config.conv_act = "gelu";
    config.embedding_size = 7;
    return config;
  }
  models::DebertaConfig config = common();
  if (name == "keys") {
    set_sizes(config, 9, 1, 3);
    config.max_relative_positions = 4;
    config.content_to_position = true;
    config.type_vocab_size = 2;
    config.conv_kernel_size = 5;
    config.pooler_hidden_act = "tanh";
    config.hidden_act = "relu";
    return config;
  }
  set_sizes(config, 8, 1, 2);
  config.position_to_content = true;
  if (name == "queries") {
    config.position_buckets = 4;
    config.position_biased_input = false;
  } else {
    config.content_to_position = true;
    config.relative_attention = false;
  }
  return config;
}

class Deberta_parity : public GoldenModel {
 protected:
  Deberta_parity() : GoldenModel("deberta.safetensors") {}

  void build(bool training) {
    model_ = tasks::with_task(
        builder_,
        models::build_deberta_classifier(builder_, config_of(GetParam()),
                                         {.micro_batch = 3, .length = 11}, {.training = training}),
        training);
    feeds_ = {{model_.input_ids, golden("input_ids")},
              {model_.attention_mask, golden("attention_mask")}};
    if (model_.token_type_ids != kNone) feeds_[model_.token_type_ids] = golden("token_type_ids");
    feed_golden(training, 3.5);
  }
};

TEST_P(Deberta_parity, weights_have_hugging_face_s_names_and_shapes) {
  build(false);
  expect_golden_names_and_shapes();
}

TEST_P(Deberta_parity, logits_loss_and_every_gradient_are_equal) {
  build(true);
  expect_golden_pass();
}

TEST_P(Deberta_parity, evaluation_is_equal) {
  build(false);
  expect_equal(evaluate(builder_.graph(), feeds_).at(model_.logits), "logits");
}

TEST_P(Deberta_parity, ten_updates_are_equal) {
  build(true);
  const optim::Options adamw =
      optim::make_options("adamw", {{"beta1", 0.9}, {"beta2", 0.98}, {"epsilon", 1e-7}}, 0.1);
  const GoldenUpdates found =
      run_golden_updates(builder_, model_, parameters_, feeds_, adamw, 0.01, {});
  expect_equal(found.losses, "losses");
  expect_equal(found.norms, "norms");
  for (const ValueId id : parameters_) expect_equal(feeds_.at(id), "updated/" + name_of(id));
}

INSTANTIATE_TEST_SUITE_P(Configurations, Deberta_parity,
                         testing::Values("v3", "v2", "keys", "queries", "absolute"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace snug
