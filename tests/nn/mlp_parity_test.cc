// SPDX-License-Identifier: Apache-2.0
// The MLP against PyTorch in float64 (tests/golden/mlp.safetensors, written by
// tools/golden/mlp.py): names and shapes, logits, loss, every gradient, ten updates. One row has no
// token.
#include "models/mlp.h"

#include <gtest/gtest.h>

#include <map>

#include "io/safetensors.h"
#include "nn/golden.h"
#include "nn/golden_updates.h"
#include "nn/ref_graph.h"

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

class Mlp_parity : public testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] std::vector<double> golden(const std::string& name) const {
    return read_golden(file_, GetParam() + "/" + name);
  }
  void expect_equal(const std::vector<double>& found, const std::string& name) const {
    expect_parity(found, golden(name), 1e-14, name);
  }
  [[nodiscard]] std::string name_of(ValueId id) const { return builder_.graph().value(id).name; }

  void build(bool training) {
    model_ = models::build_mlp_classifier(builder_, networks().at(GetParam()), kShape,
                                          {.training = training});
    feeds_ = {{model_.input_ids, golden("input_ids")},
              {model_.attention_mask, golden("attention_mask")}};
    if (training) {
      feeds_[model_.labels] = golden("labels");
      feeds_[model_.row_weights] = golden("row_weights");
      feeds_[model_.inv_total] = {1 / 5.0};
    }
    const Graph& graph = builder_.graph();
    for (size_t i = 0; i < graph.values.size(); ++i) {
      if (graph.values[i].kind != ValueKind::parameter) continue;
      parameters_.push_back(static_cast<ValueId>(i));
      feeds_[parameters_.back()] = golden("before/" + graph.values[i].name);
    }
  }

  io::SafetensorsFile file_{SNUG_SOURCE_DIR "/tests/golden/mlp.safetensors"};
  GraphBuilder builder_{op_registry(), "mlp"};
  models::SequenceModel model_;
  RefValues feeds_;
  std::vector<ValueId> parameters_;
};

TEST_P(Mlp_parity, weights_have_the_golden_s_names_and_shapes) {
  build(false);
  std::map<std::string, Shape> found;
  for (const ValueId id : parameters_) found[name_of(id)] = builder_.shape(id);
  std::map<std::string, Shape> wanted;
  const std::string prefix = GetParam() + "/before/";
  for (const io::TensorInfo& tensor : file_.tensors()) {
    if (tensor.name.starts_with(prefix)) wanted[tensor.name.substr(prefix.size())] = tensor.shape;
  }
  EXPECT_EQ(found, wanted);
}

TEST_P(Mlp_parity, logits_loss_and_every_gradient_are_equal) {
  build(true);
  const auto gradients = append_gradients(builder_, model_.loss, kNone, parameters_);
  const RefValues values = evaluate(builder_.graph(), feeds_);
  expect_equal(values.at(model_.logits), "logits");
  expect_equal(values.at(model_.loss), "loss");
  ASSERT_EQ(gradients.size(), parameters_.size());
  for (const auto& [parameter, gradient] : gradients)
    expect_equal(values.at(gradient), "grad/" + name_of(parameter));
}

TEST_P(Mlp_parity, evaluation_is_equal) {
  build(false);
  expect_equal(evaluate(builder_.graph(), feeds_).at(model_.logits), "logits");
}

TEST_P(Mlp_parity, ten_updates_are_equal) {
  build(true);
  const optim::Options adamw = {.beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-7, .weight_decay = 0.1};
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
