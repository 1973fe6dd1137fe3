// SPDX-License-Identifier: Apache-2.0
// Task: the one place that says what a network is trained for, as ModelFamily does for networks and
// OpDef for ops: the columns of a row, what is fed, the weight of a batch, the loss, the metrics,
// a prediction and how it is said. No field is optional. A task is a file here and a word in
// tasks.cmake; nothing outside of the file knows its name.
//
// Two values are fed beside the network's own inputs: kLabels, whose type is the task's, and
// kRowWeights, f32, how much each of them counts. The loss is a sum divided by the weight of the
// whole global batch, so a batch that is split adds up exactly.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/columns.h"
#include "data/label_survey.h"
#include "graph/op_def.h"
#include "models/family.h"
#include "models/model.h"
#include "snug/config.h"
#include "snug/run.h"

namespace snug::tasks {

/// What keys of the run configuration say of tasks, for those that have a use for it.
struct TaskSettings {
  double label_smoothing = 0;
  std::string regression_loss = "mse";
  double threshold = 0.5;
  double focal_gamma = 0;
  std::string span_scheme = "auto";
  std::string chosen_by = "loss";  // metric_for_best_model
  std::string f1_of = {};          // the label whose F1 is a metric; empty: none
};
[[nodiscard]] TaskSettings settings_of(const RunConfig& config);

/// What a prediction or a metric needs to know of a network.
struct Context {
  std::vector<std::string> labels;  // by id
  TaskSettings settings;
};

inline constexpr const char* kLossMetric = "loss";  // every task's

struct Metric {
  std::string name;
  bool is_greater_better = true;
  std::vector<std::string> aliases{};  // as the key metric_for_best_model may call it, too
  bool takes_order = false;            // the order of the labels' ids decides it
};

/// One row's share of what is fed.
struct FedRow {
  std::span<std::byte> labels;
  std::span<float> weights;
};

/// Gathers the metrics of one pass over rows; memory does not grow with their number, but as
/// Task::bytes_of_rows says.
class Meter {
 public:
  Meter() = default;
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;
  virtual ~Meter() = default;
  /// `output`: of the network, for this row.
  virtual void add(const data::RowColumns& row, std::span<const float> output) = 0;
  [[nodiscard]] virtual EvalMetrics result() const = 0;
};

struct Task {
  Required<std::string> name;
  /// Rows that can have its labels.
  Required<std::vector<models::InputKind>> inputs;
  /// What the network's last layer must be, and what config.json says of it.
  Required<models::Head> head;
  /// Keys of the run configuration that other tasks have no use for.
  Required<std::vector<std::string>> keys;
  /// Those of them that evaluation and prediction follow: a trained folder keeps them.
  Required<std::vector<std::string>> kept;
  /// The fewest labels with which a network says anything.
  Required<int64_t> least_labels;
  Required<data::RowForm> rows;
  /// Whether labels that look so are for this task. The first of the list that says so has them.
  Required<bool (*)(const data::LabelSurvey&)> fits;
  /// What the row adds to the denominator of its batch.
  Required<double (*)(const data::RowColumns&)> weight;
  /// Declares kLabels and kRowWeights for the network's logits, and appends the loss.
  Required<void (*)(GraphBuilder&, models::SequenceModel&, const TaskSettings&)> append_loss;
  /// Fills a row's share of both.
  Required<void (*)(const data::RowColumns&, const FedRow&)> feed;
  Required<std::vector<Metric>> metrics;
  /// Makes a meter of at most so many rows.
  Required<std::unique_ptr<Meter> (*)(const Context&, int64_t rows)> meter;
  /// What a meter takes for so many rows of a network of so many labels.
  Required<int64_t (*)(const TaskSettings&, int64_t labels, int64_t rows)> bytes_of_rows;
  Required<void (*)(const Context&, const data::RowColumns&, std::span<const float> output,
                    Prediction&)>
      predict;
  /// The field of a prediction that stands for all of it: "label".
  Required<std::string> predicted;
};

/// For append_loss: declares kLabels of this type, kRowWeights of this shape, and the divisor.
void declare_labels(GraphBuilder& builder, models::SequenceModel& model, TensorType labels,
                    Shape row_weights);

/// Marks the logits as output; in training declares what is fed and appends the loss.
void finish(GraphBuilder& builder, models::SequenceModel& model, const Task& task,
            const TaskSettings& settings, bool is_training);

/// The F1 of one label: a metric where f1_of names it.
inline constexpr const char* kF1OfMetric = "f1_of";
/// The id of that label; none where the key is not given. Throws Error{bad_config} where there is
/// no such label, and where metric_for_best_model asks for what nothing says, or for what may mean
/// two things.
[[nodiscard]] std::optional<size_t> find_f1_label(const Context& context);

/// Throws Error{bad_config} where a setting does not fit the labels: before a run, not at its first
/// evaluation.
void check_settings(const Task& task, const Context& context);

/// "accuracy 91.20 %"; "accuracy undefined" where it is not finite, as in number_text.
[[nodiscard]] std::string percent_text(const std::string& title, double share);
/// "macro F1 0.9031"
[[nodiscard]] std::string number_text(const std::string& title, double value);

}  // namespace snug::tasks
