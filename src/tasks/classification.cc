// SPDX-License-Identifier: Apache-2.0
// One label out of several a row: softmax and its cross-entropy. B rows, C classes.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/id_vector.h"
#include "ops/loss/loss.h"
#include "tasks/task.h"

namespace snug::tasks {
namespace {

int32_t label_of(const data::RowColumns& row) { return row.integers(0).front(); }

size_t argmax(std::span<const float> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// -log softmax(logits)[label], in double.
double row_loss(IdSpan<const float> logits, int32_t label) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float z : logits) sum += std::exp(static_cast<double>(z) - top);
  return top + std::log(sum) - static_cast<double>(logits[label]);
}

// labels i32(B), row_weights f32(B): 0 for padding rows.
void append_loss(GraphBuilder& builder, models::SequenceModel& model, const Settings& settings) {
  const int64_t rows = builder.shape(model.logits)[0];
  model.labels = builder.input(models::kLabels, {DType::i32, {rows}});
  model.row_weights = builder.input(models::kRowWeights, {DType::f32, {rows}});
  model.inv_total = builder.input(models::kInvTotal, {DType::f32, {}});
  const ScopeGuard scope(builder, "loss");
  model.loss =
      softmax_cross_entropy(
          builder, model.logits, model.labels, model.row_weights, model.inv_total,
          {.label_smoothing = settings.label_smoothing, .focal_gamma = settings.focal_gamma})
          .loss;
}

void feed(const data::RowColumns& row, const FedRow& fed) {
  reinterpret_cast<int32_t*>(fed.labels.data())[0] = label_of(row);
  fed.weights[0] = 1;
}

/// Ties go to the lower class.
class ClassMeter final : public Meter {
 public:
  explicit ClassMeter(const Context& context)
      : names_(context.labels),
        labelled_(names_.size()),
        predicted_(names_.size()),
        hits_(names_.size()) {}

  void add(const data::RowColumns& row, std::span<const float> logits) override {
    const int32_t label = label_of(row);
    SNUG_CHECK(label >= 0 && std::cmp_less(label, labelled_.size()), "label out of range");
    const size_t guess = argmax(logits);
    ++rows_;
    ++labelled_[label];
    ++predicted_[guess];
    if (std::cmp_equal(guess, label)) {
      ++correct_;
      ++hits_[label];
    }
    loss_sum_ += row_loss(logits, label);
  }

  [[nodiscard]] EvalMetrics result() const override {
    EvalMetrics out{.rows = rows_, .loss = 0, .values = {}, .classes = {}};
    double accuracy = 0;
    double macro_f1 = 0;
    if (rows_ > 0) {
      out.loss = loss_sum_ / static_cast<double>(rows_);
      accuracy = static_cast<double>(correct_) / static_cast<double>(rows_);
      macro_f1 = add_classes(out);
    }
    out.values = {{"accuracy", accuracy, percent_text("accuracy", accuracy)},
                  {"macro_f1", macro_f1, number_text("macro F1", macro_f1)}};
    return out;
  }

 private:
  // Returns the mean F1 of the classes that occur in rows or predictions.
  double add_classes(EvalMetrics& out) const {
    const auto ratio = [](int64_t part, int64_t whole) {
      return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
    };
    int64_t seen = 0;
    double sum = 0;
    for (size_t i = 0; i < labelled_.size(); ++i) {
      const double f1 = ratio(2 * hits_[i], labelled_[i] + predicted_[i]);
      if (labelled_[i] + predicted_[i] > 0) {
        ++seen;
        sum += f1;
      }
      out.classes.push_back({.label = names_[i],
                             .rows = labelled_[i],
                             .precision = ratio(hits_[i], predicted_[i]),
                             .recall = ratio(hits_[i], labelled_[i]),
                             .f1 = f1});
    }
    return sum / static_cast<double>(std::max<int64_t>(seen, 1));
  }

  std::vector<std::string> names_;
  int64_t rows_ = 0;
  int64_t correct_ = 0;
  double loss_sum_ = 0;
  IdVector<int64_t> labelled_;
  IdVector<int64_t> predicted_;
  IdVector<int64_t> hits_;
};

void predict(const Context& context, const data::RowColumns&, std::span<const float> logits,
             Prediction& out) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float z : logits) sum += std::exp(static_cast<double>(z) - top);
  out.scores.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i)
    out.scores.emplace_back(context.labels[i],
                            std::exp(static_cast<double>(logits[i]) - top) / sum);
  out.label = context.labels[argmax(logits)];
}

}  // namespace

const Task& classification_task() {
  static const Task task = {
      .name = "classification",
      .inputs = std::vector{models::InputKind::text, models::InputKind::image},
      .head = models::Head{.kind = models::HeadKind::row,
                           .problem_type = "single_label_classification"},
      .keys = std::vector<std::string>{"label_smoothing_factor", "class_weights", "focal_gamma"},
      .least_labels = int64_t{2},
      .rows = data::one_label(),
      .fits =
          [](const data::LabelSurvey& labels) {
            const bool has_lists = labels.lists_of_text + labels.lists_of_numbers > 0;
            return !has_lists && !(labels.all_numbers && labels.has_fraction);
          },
      .weight = [](const data::RowColumns&) { return 1.0; },
      .append_loss = append_loss,
      .feed = feed,
      .metrics = std::vector<Metric>{{.name = "accuracy"}, {.name = "macro_f1", .aliases = {"f1"}}},
      .meter = [](const Context& context, int64_t) -> std::unique_ptr<Meter> {
        return std::make_unique<ClassMeter>(context);
      },
      .bytes_per_row = [](int64_t) { return int64_t{0}; },
      .predict = predict};
  return task;
}

}  // namespace snug::tasks
