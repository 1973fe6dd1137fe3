// SPDX-License-Identifier: Apache-2.0
// The BERT classifier against Hugging Face's in float64 (tests/golden/bert.safetensors, written by
// tools/golden/bert.py): names, logits, loss, every gradient, and ten updates with clipping, decay
// and schedule.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "io/safetensors.h"
#include "models/bert/bert.h"
#include "nn/golden.h"
#include "nn/golden_updates.h"
#include "nn/ref_graph.h"
#include "tasks/testing.h"

namespace snug {
namespace {

constexpr double kRate = 0.01;
const optim::Options kAdamW =
    optim::make_options("adamw", {{"beta1", 0.9}, {"beta2", 0.98}, {"epsilon", 1e-7}}, 0.1);

class Bert_parity : public testing::Test {
 protected:
  [[nodiscard]] std::vector<double> golden(const std::string& name) const {
    return read_golden(file_, name);
  }
  void expect_equal(const std::vector<double>& found, const std::string& name) const {
    // The gradient of key biases is 0 in exact arithmetic: there both are rounding errors.
    expect_parity(found, golden(name), 1e-15, name);
  }

  // Builds the classifier and feeds the golden's batch and weights.
  void build(const std::string& hidden_act) {
    models::BertConfig config;
    config.vocab_size = 23;
    config.hidden_size = 12;
    config.num_hidden_layers = 2;
    config.num_attention_heads = 3;
    config.intermediate_size = 17;
    config.max_position_embeddings = 9;
    config.num_labels = 4;
    config.hidden_act = hidden_act;
    config.hidden_dropout_prob = 0;
    config.attention_probs_dropout_prob = 0;
    model_ = tasks::with_task(builder_, models::build_bert_classifier(
                                            builder_, config, {.micro_batch = 3, .length = 7}, {}));
    feeds_ = {{model_.input_ids, golden("inputs/input_ids")},
              {model_.token_type_ids, golden("inputs/token_type_ids")},
              {model_.attention_mask, golden("inputs/attention_mask")},
              {model_.labels, golden("inputs/labels")},
              {model_.row_weights, golden("inputs/row_weights")},
              {model_.inv_total, {1 / 3.5}}};
    const Graph& graph = builder_.graph();
    for (const ValueId id : graph.values.ids()) {
      if (graph.values[id].kind != ValueKind::parameter) continue;
      parameters_.push_back(id);
      feeds_[parameters_.back()] = golden("weights/" + graph.values[id].name);
    }
  }
  [[nodiscard]] std::string name_of(ValueId id) const { return builder_.graph().value(id).name; }

  io::SafetensorsFile file_{SNUG_SOURCE_DIR "/tests/golden/bert.safetensors"};
  GraphBuilder builder_{op_registry(), "bert"};
  models::SequenceModel model_;
  RefValues feeds_;
  std::vector<ValueId> parameters_;
};

TEST_F(Bert_parity, parameters_have_hugging_face_names_and_shapes) {
  build("gelu");
  std::map<std::string, Shape> found;
  for (ValueId id : parameters_) found[name_of(id)] = builder_.shape(id);
  std::map<std::string, Shape> wanted;
  const std::string prefix = "weights/";
  for (const io::StoredTensor& tensor : file_.tensors()) {
    if (tensor.name.rfind(prefix, 0) == 0) wanted[tensor.name.substr(prefix.size())] = tensor.shape;
  }
  EXPECT_EQ(found, wanted);
}

TEST_F(Bert_parity, logits_loss_and_every_gradient_are_equal) {
  for (const std::string act : {"gelu", "gelu_new"}) {
    builder_ = GraphBuilder(op_registry(), "bert");
    parameters_.clear();
    build(act);
    const auto gradients = autodiff::append_gradients(builder_, model_.loss, kNone, parameters_);
    const RefValues values = evaluate(builder_.graph(), feeds_);
    expect_equal(values.at(model_.logits), act + "/logits");
    expect_equal(values.at(model_.loss), act + "/loss");
    ASSERT_EQ(gradients.size(), parameters_.size());
    for (const auto& [parameter, gradient] : gradients) {
      expect_equal(values.at(gradient), act + "/grad/" + name_of(parameter));
    }
  }
}

TEST_F(Bert_parity, ten_updates_are_equal) {
  build("gelu");
  const auto compare = [this](int64_t step) {
    if (step != 1 && step != 2 && step != kGoldenSteps) return;
    for (ValueId id : parameters_)
      expect_equal(feeds_.at(id), "step" + std::to_string(step) + "/" + name_of(id));
  };
  const GoldenUpdates found =
      run_golden_updates(builder_, model_, parameters_, feeds_, kAdamW, kRate, compare);
  expect_equal(found.losses, "losses");
  expect_equal(found.norms, "norms");
}

}  // namespace
}  // namespace snug
