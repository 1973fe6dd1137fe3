// SPDX-License-Identifier: Apache-2.0
// The MLP against PyTorch in float64 (tests/golden/mlp.safetensors, written by
// tools/golden/mlp.py): names and shapes, logits, loss, every gradient, ten updates. One row has no
// token.
#include "models/mlp/mlp.h"

#include <gtest/gtest.h>

#include <map>

#include "nn/golden_model.h"
#include "nn/golden_updates.h"
#include "tasks/testing.h"

namespace snug {
namespace {

constexpr models::BatchShape kShape = {.micro_batch = 4, .length = 6};

std::map<std::string, models::MlpConfig> networks() {
  models::MlpConfig none;
  none.vocab_size = 9;
  none.num_labels = 3;
  none.embedding_size = 3;
  none.hidden_sizes = {};
  models::MlpConfig one = none;
  one.embedding_size = 0;  // as wide as the first layer
  one.hidden_sizes = {5};
  models::MlpConfig three = none;
  three.embedding_size = 4;
  three.hidden_sizes = {7, 3, 5};
  return {{"no_hidden_layer", none}, {"one_layer", one}, {"three_layers", three}};
}

class Mlp_parity : public GoldenModel {
 protected:
  Mlp_parity() : GoldenModel("mlp.safetensors") {}

  void build(bool training) {
    model_ = tasks::with_task(builder_,
                              models::build_mlp_classifier(builder_, networks().at(GetParam()),
                                                           kShape, {.training = training}),
                              training);
    feeds_ = {{model_.input_ids, golden("input_ids")},
              {model_.attention_mask, golden("attention_mask")}};
    feed_golden(training, 5.0);
  }
};

TEST_P(Mlp_parity, weights_have_the_golden_s_names_and_shapes) {
  build(false);
  expect_golden_names_and_shapes();
}

TEST_P(Mlp_parity, logits_loss_and_every_gradient_are_equal) {
  build(true);
  expect_golden_pass();
}

TEST_P(Mlp_parity, evaluation_is_equal) {
  build(false);
  expect_equal(evaluate(builder_.graph(), feeds_).at(model_.logits), "logits");
}

TEST_P(Mlp_parity, ten_updates_are_equal) {
  build(true);
  const optim::Options adamw =
      optim::make_options("adamw", {{"beta1", 0.9}, {"beta2", 0.98}, {"epsilon", 1e-7}}, 0.1);
  const GoldenUpdates found =
      run_golden_updates(builder_, model_, parameters_, feeds_, adamw, 0.01, {});
  expect_equal(found.losses, "losses");
  expect_equal(found.norms, "norms");
  for (const ValueId id : parameters_) expect_equal(feeds_.at(id), "updated/" + name_of(id));
}

INSTANTIATE_TEST_SUITE_P(Networks, Mlp_parity,
                         testing::Values("no_hidden_layer", "one_layer", "three_layers"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace snug
