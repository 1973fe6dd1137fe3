// SPDX-License-Identifier: Apache-2.0
// Any number of labels a row: a sigmoid each and binary cross-entropy. B rows, C labels.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "base/index_vector.h"
#include "ops/loss/loss.h"
#include "snug/error.h"
#include "tasks/class_counts.h"
#include "tasks/roc_auc.h"
#include "tasks/task.h"

namespace snug::tasks {
namespace {

// A list of all labels as transformers' collator has it: 1 where the row has one.
bool says_places(const data::RowLabel& label) {
  return label.is_number && !label.has_fraction &&
         std::all_of(label.items.begin(), label.items.end(),
                     [](const std::string& item) { return item == "0" || item == "1"; });
}

void read_row(const data::Row& row, const data::EncodedRow&, const std::string& where,
              std::span<data::ColumnDraft> columns) {
  if (!row.label) return;
  const data::RowLabel& label = *row.label;
  const bool is_empty_list = label.is_list && label.items.empty();
  if (label.is_list && !is_empty_list && says_places(label)) {
    data::LabelPlaces places{.count = static_cast<int64_t>(label.items.size()), .taken = {}};
    for (size_t i = 0; i < label.items.size(); ++i) {
      if (label.items[i] == "1") places.taken.push_back(static_cast<int32_t>(i));
    }
    columns[0].places = std::move(places);
    return;
  }
  if (!label.is_list || (label.is_number && !is_empty_list)) {
    throw Error(ErrorCode::bad_data, where, "the label is no list of texts, nor of 0 and 1",
                R"(write "label": ["a", "b"], or [] for none, or 0 or 1 for every label: [1, 0]; )"
                "lists exist only in JSON");
  }
  std::set<std::string> seen;
  for (const std::string& item : label.items) {
    if (!seen.insert(item).second)
      throw Error(ErrorCode::bad_data, where, "the label '" + item + "' stands twice in the list",
                  "give it once");
  }
  columns[0].names = label.items;
}

// labels f32(B, C): 1 where the row has the label; row_weights f32(B): 0 for padding rows.
void append_loss(GraphBuilder& builder, models::SequenceModel& model,
                 const TaskSettings& settings) {
  const Shape shape = builder.shape(model.logits);
  declare_labels(builder, model, {DType::f32, shape}, {shape[0]});
  const ScopeGuard scope(builder, "loss");
  model.loss = binary_cross_entropy(builder, model.logits, model.labels, model.row_weights,
                                    model.inv_total, settings.focal_gamma);
}

void feed(const data::RowColumns& row, const FedRow& fed) {
  const IndexSpan<float> labels(reinterpret_cast<float*>(fed.labels.data()),
                                fed.labels.size() / sizeof(float));
  fed.weights[0] = 1;
  std::fill(labels.begin(), labels.end(), 0.0F);
  for (const int32_t id : row.integers(0)) labels[id] = 1.0F;
}

double sigmoid(float logit) { return 1 / (1 + std::exp(-static_cast<double>(logit))); }

class LabelsMeter final : public Meter {
 public:
  LabelsMeter(const Context& context, int64_t rows)
      : names_(context.labels),
        threshold_(context.settings.threshold),
        counts_(names_.size()),
        kept_(names_, rows, context.settings),
        scores_(names_.size()),
        is_wanted_(names_.size()),
        f1_label_(find_f1_label(context)) {}

  void add(const data::RowColumns& row, std::span<const float> logits) override {
    SNUG_CHECK(logits.size() == names_.size(), "a logit for each label");
    std::fill(is_wanted_.begin(), is_wanted_.end(), false);
    for (const int32_t id : row.integers(0)) is_wanted_[id] = true;
    bool is_same = true;
    double loss = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const auto z = static_cast<double>(logits[i]);
      scores_[i] = sigmoid(logits[i]);
      const bool is_found = scores_[i] >= threshold_;
      loss += std::max(z, 0.0) - (is_wanted_[i] ? z : 0) + std::log1p(std::exp(-std::abs(z)));
      counts_.wanted[i] += is_wanted_[i] ? 1 : 0;
      counts_.found[i] += is_found ? 1 : 0;
      counts_.hits[i] += is_found && is_wanted_[i] ? 1 : 0;
      is_same = is_same && is_found == is_wanted_[i];
    }
    ++rows_;
    same_ += is_same ? 1 : 0;
    loss_sum_ += loss / static_cast<double>(logits.size());
    if (kept_.are_kept()) kept_.add(scores_, is_wanted_);
  }

  [[nodiscard]] EvalMetrics result() const override {
    EvalMetrics out{.rows = rows_, .loss = 0, .values = {}, .classes = {}};
    int64_t hits = 0;
    int64_t both = 0;
    double sum = 0;
    for (size_t i = 0; i < names_.size(); ++i) {
      hits += counts_.hits[i];
      both += counts_.wanted[i] + counts_.found[i];
      sum += counts_.f1(i) / static_cast<double>(names_.size());
      out.classes.push_back(counts_.score(i, names_[i]));
    }
    const auto of_rows = [&](double value) { return rows_ == 0 ? kUndefined : value; };
    const double micro = of_rows(ratio(2 * hits, both));
    const double macro = of_rows(sum);
    const double weighted = of_rows(counts_.weighted_f1());
    const double same = mean_of(static_cast<double>(same_), rows_);
    if (rows_ > 0) out.loss = loss_sum_ / static_cast<double>(rows_);
    out.values = {{"micro_f1", micro, number_text("micro F1", micro)},
                  {"macro_f1", macro, number_text("macro F1", macro)},
                  {"weighted_f1", weighted, number_text("weighted F1", weighted)},
                  {"subset_accuracy", same, percent_text("subset accuracy", same)},
                  kept_.metric()};
    if (f1_label_) {
      const double f1 = of_rows(counts_.f1(*f1_label_));
      out.values.push_back({kF1OfMetric, f1, number_text("F1 of " + names_[*f1_label_], f1)});
    }
    return out;
  }

 private:
  std::vector<std::string> names_;
  double threshold_;
  int64_t rows_ = 0;
  int64_t same_ = 0;
  double loss_sum_ = 0;
  ClassCounts counts_;
  KeptScores kept_;
  std::vector<double> scores_;   // of a row
  IndexVector<bool> is_wanted_;  // of a row
  std::optional<size_t> f1_label_;
};

void predict(const Context& context, const data::RowColumns&, std::span<const float> logits,
             Prediction& out) {
  out.labels.emplace();
  for (size_t i = 0; i < logits.size(); ++i) {
    const double score = sigmoid(logits[i]);
    out.scores.emplace_back(context.labels[i], score);
    if (score >= context.settings.threshold) out.labels->emplace_back(context.labels[i]);
  }
}

}  // namespace

const Task& multi_label_task() {
  static const Task task = {
      .name = "multi_label",
      .inputs = std::vector{models::InputKind::text},
      .head =
          models::Head{.kind = models::HeadKind::row, .problem_type = "multi_label_classification"},
      .keys = std::vector<std::string>{"threshold", "focal_gamma", "label_order", "f1_of"},
      .kept = std::vector<std::string>{"threshold"},
      .least_labels = int64_t{1},
      .rows = data::RowForm{.name = "lists of labels",
                            .has_words = false,
                            .columns = {{.name = "label", .form = data::ColumnForm::ragged}},
                            .read = read_row},
      .fits =
          [](const data::LabelSurvey& labels) {
            return labels.lists_of_text > 0 && labels.lists_of_words == 0;
          },
      .weight = [](const data::RowColumns&) { return 1.0; },
      .append_loss = append_loss,
      .feed = feed,
      .metrics = std::vector<Metric>{{.name = "micro_f1"},
                                     {.name = "macro_f1", .aliases = {"f1"}},
                                     {.name = "weighted_f1"},
                                     {.name = "subset_accuracy"},
                                     {.name = kRocAuc},
                                     {.name = kF1OfMetric}},
      .meter = [](const Context& context, int64_t rows) -> std::unique_ptr<Meter> {
        return std::make_unique<LabelsMeter>(context, rows);
      },
      .bytes_of_rows = [](const TaskSettings& settings, int64_t labels,
                          int64_t rows) { return KeptScores::bytes(labels, rows, settings); },
      .predict = predict,
      .predicted = "labels"};
  return task;
}

}  // namespace snug::tasks
