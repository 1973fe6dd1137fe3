// SPDX-License-Identifier: Apache-2.0
// Losses with weights of rows and classes, and focal losses, against PyTorch's in float64, whole
// and in pieces: tools/golden/weights.py. That a run feeds such weights is tested in src/train.
#include "golden_model.h"
#include "ops/elementwise/elementwise.h"
#include "tasks/testing.h"

namespace snug {
namespace {

constexpr int64_t kRows = 5;
constexpr int64_t kClasses = 4;

class Weights_parity : public GoldenModel {
 protected:
  Weights_parity() : GoldenModel("weights.safetensors") {}

  [[nodiscard]] const tasks::Task& task() const {
    const std::string name = GetParam();
    return *tasks::find_task(name.starts_with("multi_label") ? "multi_label"
                                                             : name.substr(0, name.find('_')));
  }
  // What each row counts, its class included.
  [[nodiscard]] std::vector<double> weights() const {
    std::vector<double> all = golden("rows");
    if (GetParam().starts_with("classification")) {
      const std::vector<double> labels = golden("labels");
      for (size_t row = 0; row < all.size(); ++row)
        all[row] *= golden("classes").at(static_cast<size_t>(labels[row]));
    }
    return all;
  }
  [[nodiscard]] static std::vector<double> part(const std::vector<double>& all, int64_t first,
                                                int64_t rows) {
    const auto of_row = static_cast<std::ptrdiff_t>(all.size()) / kRows;
    return {all.begin() + first * of_row, all.begin() + (first + rows) * of_row};
  }

  struct Result {
    double loss = 0;
    std::vector<double> gradient;
  };
  // The result of rows [first, first + rows) of the batch, divided by the weight of all.
  [[nodiscard]] Result run(int64_t first, int64_t rows) {
    GraphBuilder b(op_registry(), "loss");
    models::SequenceModel model;
    const ValueId x = b.parameter("x", {DType::f32, {rows, kClasses}});
    model.logits = scale(b, x, 1);  // an output is no parameter
    model = tasks::with_task(b, model, true, task(), {.focal_gamma = golden("gamma").front()});
    double total = 0;
    for (const double weight : weights()) total += weight;
    const RefValues feeds = {{x, part(golden("logits"), first, rows)},
                             {model.labels, part(golden("labels"), first, rows)},
                             {model.row_weights, part(weights(), first, rows)},
                             {model.inv_total, {1 / total}}};
    const auto gradients = autodiff::append_gradients(b, model.loss, kNone, std::vector{x});
    const RefValues values = evaluate(b.graph(), feeds);
    return {.loss = values.at(model.loss).front(), .gradient = values.at(gradients.at(x))};
  }
};

TEST_P(Weights_parity, loss_and_gradient_are_pytorch_s) {
  const Result whole = run(0, kRows);
  expect_equal({whole.loss}, "loss");
  expect_equal(whole.gradient, "grad");
}

TEST_P(Weights_parity, pieces_of_the_batch_add_up_to_the_whole) {
  const Result first = run(0, 2);
  const Result second = run(2, 3);
  std::vector<double> gradient = first.gradient;
  gradient.insert(gradient.end(), second.gradient.begin(), second.gradient.end());
  expect_equal({first.loss + second.loss}, "loss");
  expect_equal(gradient, "grad");
}

INSTANTIATE_TEST_SUITE_P(Losses, Weights_parity,
                         testing::Values("classification_classes", "classification_rows",
                                         "classification_both", "classification_focal",
                                         "classification_focal_half", "multi_label_rows",
                                         "multi_label_focal", "regression_rows"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace snug
