// SPDX-License-Identifier: Apache-2.0
// For the parity tests: a small classifier whose batch, weights, logits, loss and gradients stand
// in a golden file under the name of the test's parameter.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "models/model.h"
#include "nn/golden.h"
#include "nn/ref_graph.h"

namespace snug {

class GoldenModel : public testing::TestWithParam<std::string> {
 protected:
  /// `file`: its name in tests/golden.
  explicit GoldenModel(const std::string& file) : file_(SNUG_SOURCE_DIR "/tests/golden/" + file) {}

  [[nodiscard]] std::vector<double> golden(const std::string& name) const {
    return read_golden(file_, GetParam() + "/" + name);
  }
  void expect_equal(const std::vector<double>& found, const std::string& name) const {
    expect_parity(found, golden(name), 1e-14, name);
  }
  [[nodiscard]] std::string name_of(ValueId id) const { return builder_.graph().value(id).name; }

  /// Feeds weights and, in training, labels and the weights of the rows, whose sum is
  /// `total_weight`. Call when the model is built; its own inputs are the caller's.
  void feed_golden(bool training, double total_weight) {
    if (training) {
      feeds_[model_.labels] = golden("labels");
      feeds_[model_.row_weights] = golden("row_weights");
      feeds_[model_.inv_total] = {1 / total_weight};
    }
    parameters_.clear();
    const Graph& graph = builder_.graph();
    for (const ValueId id : graph.values.ids()) {
      if (graph.values[id].kind != ValueKind::parameter) continue;
      parameters_.push_back(id);
      feeds_[parameters_.back()] = golden("before/" + graph.values[id].name);
    }
  }

  void expect_golden_names_and_shapes() const {
    std::map<std::string, Shape> found;
    for (const ValueId id : parameters_) found[name_of(id)] = builder_.shape(id);
    std::map<std::string, Shape> wanted;
    const std::string prefix = GetParam() + "/before/";
    for (const io::StoredTensor& tensor : file_.tensors()) {
      if (tensor.name.starts_with(prefix)) wanted[tensor.name.substr(prefix.size())] = tensor.shape;
    }
    EXPECT_EQ(found, wanted);
  }

  /// Appends the backward pass; afterwards values_ holds every value of both passes.
  void expect_golden_pass(const autodiff::GradientAccumulator& accumulator = {}) {
    const auto gradients = autodiff::append_gradients(builder_, model_.loss, kNone, parameters_, {},
                                                      autodiff::SinkEffect::reads, accumulator);
    values_ = evaluate(builder_.graph(), feeds_);
    expect_equal(values_.at(model_.logits), "logits");
    expect_equal(values_.at(model_.loss), "loss");
    ASSERT_EQ(gradients.size(), parameters_.size());
    for (const auto& [parameter, gradient] : gradients)
      expect_equal(values_.at(gradient), "grad/" + name_of(parameter));
  }

  io::SafetensorsFile file_;
  GraphBuilder builder_{op_registry(), "model"};
  models::SequenceModel model_;
  RefValues feeds_;
  RefValues values_;
  std::vector<ValueId> parameters_;
};

}  // namespace snug
