// SPDX-License-Identifier: Apache-2.0
// The LSTM classifier against PyTorch's nn.LSTM over packed sequences in float64
// (tests/golden/lstm.safetensors, written by tools/golden/lstm.py): names and shapes, logits, loss,
// every gradient, with sums of gradients as values and in place.
#include <gtest/gtest.h>

#include <map>

#include "io/safetensors.h"
#include "models/lstm.h"
#include "nn/golden.h"
#include "nn/ref_graph.h"

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

class Lstm_parity : public testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] std::vector<double> golden(const std::string& name) const {
    return read_golden(file_, GetParam() + "/" + name);
  }
  void expect_equal(const std::vector<double>& found, const std::string& name) const {
    expect_parity(found, golden(name), 1e-14, name);
  }

  void build(bool training) {
    builder_ = GraphBuilder(op_registry(), "lstm");
    model_ = models::build_lstm_classifier(builder_, networks().at(GetParam()), kShape,
                                           {.training = training});
    feeds_ = {{model_.input_ids, golden("input_ids")},
              {model_.attention_mask, golden("attention_mask")}};
    if (training) {
      feeds_[model_.labels] = golden("labels");
      feeds_[model_.row_weights] = golden("row_weights");
      feeds_[model_.inv_total] = {1 / 5.0};
    }
    parameters_.clear();
    const Graph& graph = builder_.graph();
    for (size_t i = 0; i < graph.values.size(); ++i) {
      if (graph.values[i].kind != ValueKind::parameter) continue;
      parameters_.push_back(static_cast<ValueId>(i));
      feeds_[parameters_.back()] = golden("before/" + graph.values[i].name);
    }
  }

  void expect_golden_pass(const GradientAccumulator& accumulator) {
    const auto gradients = append_gradients(builder_, model_.loss, kNone, parameters_, {},
                                            SinkEffect::reads, accumulator);
    const RefValues values = evaluate(builder_.graph(), feeds_);
    expect_equal(values.at(model_.logits), "logits");
    expect_equal(values.at(model_.loss), "loss");
    ASSERT_EQ(gradients.size(), parameters_.size());
    for (const auto& [parameter, gradient] : gradients)
      expect_equal(values.at(gradient), "grad/" + builder_.graph().value(parameter).name);
  }

  io::SafetensorsFile file_{SNUG_SOURCE_DIR "/tests/golden/lstm.safetensors"};
  GraphBuilder builder_{op_registry(), "lstm"};
  models::SequenceModel model_;
  RefValues feeds_;
  std::vector<ValueId> parameters_;
};

TEST_P(Lstm_parity, weights_have_the_names_and_shapes_of_PyTorch) {
  build(false);
  std::map<std::string, Shape> found;
  for (const ValueId id : parameters_) found[builder_.graph().value(id).name] = builder_.shape(id);
  std::map<std::string, Shape> wanted;
  const std::string prefix = GetParam() + "/before/";
  for (const io::TensorInfo& tensor : file_.tensors()) {
    if (tensor.name.starts_with(prefix)) wanted[tensor.name.substr(prefix.size())] = tensor.shape;
  }
  EXPECT_EQ(found, wanted);
}

TEST_P(Lstm_parity, logits_loss_and_every_gradient_are_equal) {
  build(true);
  expect_golden_pass({});
}

TEST_P(Lstm_parity, gradients_summed_in_place_are_equal) {
  build(true);
  expect_golden_pass([this](ValueId weight, int) {
    const ValueId sum =
        builder_.state("grad." + builder_.graph().value(weight).name, builder_.type(weight));
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
