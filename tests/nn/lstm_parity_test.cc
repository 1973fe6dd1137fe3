// SPDX-License-Identifier: Apache-2.0
// The LSTM classifier against PyTorch's nn.LSTM over packed sequences in float64
// (tests/golden/lstm.safetensors, written by tools/golden/lstm.py): names and shapes, logits, loss,
// every gradient, with sums of gradients as values and in place.
#include <gtest/gtest.h>

#include <map>

#include "models/lstm/lstm.h"
#include "nn/golden_model.h"
#include "tasks/testing.h"

namespace snug {
namespace {

constexpr models::BatchShape kShape = {.micro_batch = 4, .length = 6};

std::map<std::string, models::LstmConfig> networks() {
  models::LstmConfig one;
  one.vocab_size = 9;
  one.num_labels = 3;
  one.embedding_size = 3;
  one.hidden_size = 5;
  models::LstmConfig two = one;
  two.embedding_size = 4;
  two.hidden_size = 3;
  two.num_hidden_layers = 2;
  return {{"one_layer", one}, {"two_layers", two}};
}

class Lstm_parity : public GoldenModel {
 protected:
  Lstm_parity() : GoldenModel("lstm.safetensors") {}

  void build(bool training) {
    model_ = tasks::with_task(builder_,
                              models::build_lstm_classifier(builder_, networks().at(GetParam()),
                                                            kShape, {.training = training}),
                              training);
    feeds_ = {{model_.input_ids, golden("input_ids")},
              {model_.attention_mask, golden("attention_mask")}};
    feed_golden(training, 5.0);
  }
};

TEST_P(Lstm_parity, weights_have_the_names_and_shapes_of_PyTorch) {
  build(false);
  expect_golden_names_and_shapes();
}

TEST_P(Lstm_parity, logits_loss_and_every_gradient_are_equal) {
  build(true);
  expect_golden_pass();
}

TEST_P(Lstm_parity, gradients_summed_in_place_are_equal) {
  build(true);
  expect_golden_pass([this](ValueId weight, int) {
    const ValueId sum = builder_.state("grad." + name_of(weight), builder_.type(weight));
    feeds_[sum] = std::vector<double>(feeds_.at(weight).size(), 0);
    return sum;
  });
}

TEST_P(Lstm_parity, evaluation_is_equal) {
  build(false);
  expect_equal(evaluate(builder_.graph(), feeds_).at(model_.logits), "logits");
}

INSTANTIATE_TEST_SUITE_P(Networks, Lstm_parity, testing::Values("one_layer", "two_layers"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace snug
