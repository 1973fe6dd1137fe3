// SPDX-License-Identifier: Apache-2.0
// DistilBERT against Hugging Face's in float64 (tests/golden/distilbert.safetensors, written by
// tools/golden/distilbert.py): names and shapes, logits, loss, every gradient, ten updates. Rows
// are padded.
#include "models/distilbert/distilbert.h"

#include <gtest/gtest.h>

#include "nn/golden_model.h"
#include "nn/golden_updates.h"
#include "tasks/testing.h"

namespace snug {
namespace {

class Distilbert_parity : public GoldenModel {
 protected:
  Distilbert_parity() : GoldenModel("distilbert.safetensors") {}

  void build(bool training) {
    const models::DistilbertConfig config = {.vocab_size = 23,
                                             .dim = 12,
                                             .n_layers = 2,
                                             .n_heads = 3,
                                             .hidden_dim = 17,
                                             .activation = GetParam(),
                                             .dropout = 0,
                                             .attention_dropout = 0,
                                             .seq_classif_dropout = 0,
                                             .max_position_embeddings = 9,
                                             .num_labels = 4,
                                             .labels = {},
                                             .head = {}};
    model_ = tasks::with_task(
        builder_,
        models::build_distilbert_classifier(builder_, config, {.micro_batch = 3, .length = 7},
                                            {.training = training}),
        training);
    feeds_ = {{model_.input_ids, golden("input_ids")},
              {model_.attention_mask, golden("attention_mask")}};
    feed_golden(training, 3.5);
  }
};

TEST_P(Distilbert_parity, weights_have_hugging_face_s_names_and_shapes) {
  build(false);
  expect_golden_names_and_shapes();
}

TEST_P(Distilbert_parity, logits_loss_and_every_gradient_are_equal) {
  build(true);
  expect_golden_pass();
}

TEST_P(Distilbert_parity, evaluation_is_equal) {
  build(false);
  expect_equal(evaluate(builder_.graph(), feeds_).at(model_.logits), "logits");
}

TEST_P(Distilbert_parity, ten_updates_are_equal) {
  build(true);
  const optim::Options adamw =
      optim::make_options("adamw", {{"beta1", 0.9}, {"beta2", 0.98}, {"epsilon", 1e-7}}, 0.1);
  const GoldenUpdates found =
      run_golden_updates(builder_, model_, parameters_, feeds_, adamw, 0.01, {});
  expect_equal(found.losses, "losses");
  expect_equal(found.norms, "norms");
  for (const ValueId id : parameters_) expect_equal(feeds_.at(id), "updated/" + name_of(id));
}

INSTANTIATE_TEST_SUITE_P(Activations, Distilbert_parity, testing::Values("gelu", "relu"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace snug
