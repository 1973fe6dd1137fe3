// SPDX-License-Identifier: Apache-2.0
// ModernBERT against Hugging Face's in float64 (tests/golden/modernbert.safetensors, written by
// tools/golden/modernbert.py): names and shapes, logits, loss, every gradient, ten updates. Rows
// are padded, and longer than the windows.
#include "models/modernbert/modernbert.h"

#include <gtest/gtest.h>

#include "nn/golden_model.h"
#include "nn/golden_updates.h"
#include "tasks/testing.h"

namespace snug {
namespace {

// As tools/golden/modernbert.py has them.
models::ModernbertConfig config_of(const std::string& name) {
  models::ModernbertConfig config;
  config.vocab_size = 23;
  config.max_position_embeddings = 9;
  config.num_labels = 4;
  config.pad_token_id = 0;
  config.hidden_size = 12;
  config.intermediate_size = 7;
  config.num_hidden_layers = 4;
  config.num_attention_heads = 3;
  config.local_attention = 4;
  if (name == "plain") return config;
  config.hidden_size = 10;
  config.intermediate_size = 9;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 5;
  config.local_attention = 2;
  config.is_local = {true, false};
  config.norm_bias = config.attention_bias = config.mlp_bias = config.classifier_bias = true;
  config.has_mean_pooling = true;
  config.hidden_activation = "gelu_pytorch_tanh";
  config.classifier_activation = "tanh";
  config.norm_eps = 1e-3;
  config.global_rope_theta = 50;
  config.local_rope_theta = 7;
  return config;
}

class Modernbert_parity : public GoldenModel {
 protected:
  Modernbert_parity() : GoldenModel("modernbert.safetensors") {}

  void build(bool training) {
    model_ = tasks::with_task(builder_,
                              models::build_modernbert_classifier(builder_, config_of(GetParam()),
                                                                  {.micro_batch = 3, .length = 9},
                                                                  {.training = training}),
                              training);
    feeds_ = {{model_.input_ids, golden("input_ids")},
              {model_.attention_mask, golden("attention_mask")}};
    feed_golden(training, 3.5);
  }
};

TEST_P(Modernbert_parity, weights_have_hugging_face_s_names_and_shapes) {
  build(false);
  expect_golden_names_and_shapes();
}

TEST_P(Modernbert_parity, logits_loss_and_every_gradient_are_equal) {
  build(true);
  expect_golden_pass();
}

TEST_P(Modernbert_parity, evaluation_is_equal) {
  build(false);
  expect_equal(evaluate(builder_.graph(), feeds_).at(model_.logits), "logits");
}

TEST_P(Modernbert_parity, ten_updates_are_equal) {
  build(true);
  const optim::Options adamw =
      optim::make_options("adamw", {{"beta1", 0.9}, {"beta2", 0.98}, {"epsilon", 1e-7}}, 0.1);
  const GoldenUpdates found =
      run_golden_updates(builder_, model_, parameters_, feeds_, adamw, 0.01, {});
  expect_equal(found.losses, "losses");
  expect_equal(found.norms, "norms");
  for (const ValueId id : parameters_) expect_equal(feeds_.at(id), "updated/" + name_of(id));
}

INSTANTIATE_TEST_SUITE_P(Configurations, Modernbert_parity, testing::Values("plain", "biased"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace snug
