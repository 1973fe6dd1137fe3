// SPDX-License-Identifier: Apache-2.0
#include "tasks/task.h"

#include <cmath>

#include "base/numbers.h"

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

Settings settings_of(const RunConfig& config) {
  return {.label_smoothing = config.label_smoothing_factor,
          .regression_loss = config.regression_loss,
          .threshold = config.threshold,
          .focal_gamma = config.focal_gamma,
          .span_scheme = config.span_scheme,
          .chosen_by = config.metric_for_best_model};
}

void finish(GraphBuilder& builder, models::SequenceModel& model, const Task& task,
            const Settings& settings, bool is_training) {
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
