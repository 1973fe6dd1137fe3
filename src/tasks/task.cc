// SPDX-License-Identifier: Apache-2.0
#include "tasks/task.h"

#include <cmath>
#include <utility>

#include "base/numbers.h"
#include "data/label_map.h"
#include "graph/builder.h"
#include "ops/fed_names.h"
#include "snug/error.h"

namespace snug {

std::optional<double> EvalMetrics::find(std::string_view name) const {
  if (name == tasks::kLossMetric) return loss;
  for (const MetricValue& each : values) {
    if (each.name == name) return each.value;
  }
  return std::nullopt;
}

}  // namespace snug

namespace snug::tasks {

TaskSettings settings_of(const RunConfig& config) {
  return {.label_smoothing = config.label_smoothing_factor,
          .regression_loss = config.regression_loss,
          .threshold = config.threshold,
          .focal_gamma = config.focal_gamma,
          .span_scheme = config.span_scheme,
          .chosen_by = config.metric_for_best_model,
          .f1_of = config.f1_of};
}

std::optional<size_t> find_f1_label(const Context& context) {
  const TaskSettings& settings = context.settings;
  if (settings.f1_of.empty()) {
    if (settings.chosen_by != kF1OfMetric) return std::nullopt;
    throw Error(ErrorCode::bad_config, "metric_for_best_model", "f1_of is the F1 of one label",
                "give f1_of, the name of the label");
  }
  if (settings.chosen_by == "f1")
    throw Error(ErrorCode::bad_config, "metric_for_best_model",
                "f1 is the mean over all labels (macro_f1), and f1_of names one",
                "give f1_of for that label, or macro_f1");
  const data::Labels labels = data::Labels::from_names(context.labels);
  const auto id = data::find_class(labels, data::NumericNames(context.labels), settings.f1_of);
  if (id) return static_cast<size_t>(*id);
  throw Error(ErrorCode::bad_config, kF1OfMetric,
              "there is no label '" + settings.f1_of + "'; the labels are " +
                  data::list_labels(context.labels),
              "give one of them");
}

void declare_labels(GraphBuilder& builder, models::SequenceModel& model, TensorType labels,
                    Shape row_weights) {
  model.labels = builder.input(models::kLabels, std::move(labels));
  model.row_weights = builder.input(kRowWeights, {DType::f32, std::move(row_weights)});
  model.inv_total = builder.input(kInverseTotal, {DType::f32, {}});
}

void finish(GraphBuilder& builder, models::SequenceModel& model, const Task& task,
            const TaskSettings& settings, bool is_training) {
  builder.mark_output(model.logits, models::kLogits);
  if (is_training) (*task.append_loss)(builder, model, settings);
}

void check_settings(const Task& task, const Context& context) {
  (void)(*task.meter)(context, 0);  // which refuses what it cannot count with
}

std::string percent_text(const std::string& title, double share) {
  if (!std::isfinite(share)) return title + " undefined";
  return title + " " + fixed_text(100 * share, 2) + " %";
}

std::string number_text(const std::string& title, double value) {
  if (!std::isfinite(value)) return title + " undefined";
  return title + " " + fixed_text(value, 4);
}

}  // namespace snug::tasks
