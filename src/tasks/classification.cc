// SPDX-License-Identifier: Apache-2.0
// One label out of several a row: softmax and its cross-entropy. B rows, C classes.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/index_vector.h"
#include "ops/loss/loss.h"
#include "tasks/class_counts.h"
#include "tasks/roc_auc.h"
#include "tasks/task.h"

namespace snug::tasks {
namespace {

int32_t label_of(const data::RowColumns& row) { return row.integers(0).front(); }

size_t argmax(std::span<const float> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// -log softmax(logits)[label], in double.
double row_loss(IndexSpan<const float> logits, int32_t label) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float z : logits) sum += std::exp(static_cast<double>(z) - top);
  return top + std::log(sum) - static_cast<double>(logits[label]);
}

// labels i32(B), row_weights f32(B): 0 for padding rows.
void append_loss(GraphBuilder& builder, models::SequenceModel& model,
                 const TaskSettings& settings) {
  const int64_t rows = builder.shape(model.logits)[0];
  declare_labels(builder, model, {DType::i32, {rows}}, {rows});
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

void softmax(std::span<const float> logits, std::span<double> scores) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float z : logits) sum += std::exp(static_cast<double>(z) - top);
  for (size_t i = 0; i < scores.size(); ++i)
    scores[i] = std::exp(static_cast<double>(logits[i]) - top) / sum;
}

// From the counts of classes only: the correlation of labels and predictions
// as 0/1 vectors. 0 where either is always the same class, as scikit-learn has it.
double matthews(const ClassCounts& counts, int64_t rows, int64_t correct) {
  double both = 0;
  double wanted = 0;
  double found = 0;
  for (size_t i = 0; i < counts.wanted.size(); ++i) {
    const double t = static_cast<double>(counts.wanted[i]) / static_cast<double>(rows);
    const double p = static_cast<double>(counts.found[i]) / static_cast<double>(rows);
    both += t * p;
    wanted += t * (1 - t);
    found += p * (1 - p);
  }
  if (wanted == 0 || found == 0) return 0;
  const double share = static_cast<double>(correct) / static_cast<double>(rows);
  return (share - both) / std::sqrt(wanted * found);
}

// Sums over rows of ids and of their squares.
struct Moments {
  int64_t sum = 0;
  int64_t squares = 0;
};

Moments moments(const IndexVector<int64_t>& counts) {
  Moments out;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto id = static_cast<int64_t>(i);
    out.sum += id * counts[i];
    out.squares += id * id * counts[i];
  }
  return out;
}

// Quadratic weighted kappa, by ids: what is expected of independent labels and predictions follows
// from their means and variances. In integers, so that 0 is 0. Not defined where both are always
// the same one class.
double quadratic_kappa(const ClassCounts& counts, int64_t rows, double squares) {
  using Wide = __int128;
  const Moments wanted = moments(counts.wanted);
  const Moments found = moments(counts.found);
  const Wide expected =
      Wide{rows} * (Wide{wanted.squares} + found.squares) - 2 * Wide{wanted.sum} * Wide{found.sum};
  if (expected == 0) return kUndefined;
  const Wide better = expected - Wide{rows} * static_cast<int64_t>(squares);
  return static_cast<double>(better) / static_cast<double>(expected);
}

// The second of two classes is what is looked for.
std::vector<std::string> scored_labels(const std::vector<std::string>& labels) {
  return labels.size() == 2 ? std::vector{labels[1]} : labels;
}

/// Ties go to the lower class.
class ClassMeter final : public Meter {
 public:
  ClassMeter(const Context& context, int64_t rows)
      : names_(context.labels),
        counts_(names_.size()),
        kept_(scored_labels(names_), rows, context.settings),
        scores_(kept_.are_kept() ? names_.size() : 0),
        has_label_(scored_labels(names_).size()),
        f1_label_(find_f1_label(context)) {}

  void add(const data::RowColumns& row, std::span<const float> logits) override {
    const int32_t label = label_of(row);
    SNUG_CHECK(label >= 0 && std::cmp_less(label, names_.size()), "label out of range");
    const size_t guess = argmax(logits);
    ++rows_;
    ++counts_.wanted[label];
    ++counts_.found[guess];
    if (std::cmp_equal(guess, label)) {
      ++correct_;
      ++counts_.hits[label];
    }
    const double distance = static_cast<double>(guess) - static_cast<double>(label);
    squares_ += distance * distance;
    loss_sum_ += row_loss(logits, label);
    if (kept_.are_kept()) keep(logits, static_cast<size_t>(label));
  }

  [[nodiscard]] EvalMetrics result() const override {
    EvalMetrics out{.rows = rows_, .loss = 0, .values = {}, .classes = {}};
    const auto of_rows = [&](const auto& value) { return rows_ == 0 ? kUndefined : value(); };
    if (rows_ > 0) out.loss = loss_sum_ / static_cast<double>(rows_);
    const double accuracy = mean_of(static_cast<double>(correct_), rows_);
    const double macro_f1 = of_rows([&] { return add_classes(out); });
    const double weighted_f1 = of_rows([&] { return counts_.weighted_f1(); });
    const double phi = of_rows([&] { return matthews(counts_, rows_, correct_); });
    const double kappa = of_rows([&] { return quadratic_kappa(counts_, rows_, squares_); });
    out.values = {{"accuracy", accuracy, percent_text("accuracy", accuracy)},
                  {"macro_f1", macro_f1, number_text("macro F1", macro_f1)},
                  {"weighted_f1", weighted_f1, number_text("weighted F1", weighted_f1)},
                  {"matthews", phi, number_text("Matthews", phi)},
                  {"qwk", kappa, number_text("QWK", kappa)},
                  kept_.metric()};
    if (f1_label_) {
      const double f1 = of_rows([&] { return counts_.f1(*f1_label_); });
      out.values.push_back({kF1OfMetric, f1, number_text("F1 of " + names_[*f1_label_], f1)});
    }
    return out;
  }

 private:
  void keep(std::span<const float> logits, size_t label) {
    softmax(logits, scores_);
    const size_t first = names_.size() - has_label_.size();
    std::fill(has_label_.begin(), has_label_.end(), false);
    if (label >= first) has_label_[label - first] = true;
    kept_.add(std::span<const double>(scores_).subspan(first), has_label_);
  }

  // Returns the mean F1 of the classes that occur in rows or predictions.
  double add_classes(EvalMetrics& out) const {
    int64_t seen = 0;
    double sum = 0;
    for (size_t i = 0; i < names_.size(); ++i) {
      if (counts_.wanted[i] + counts_.found[i] > 0) {
        ++seen;
        sum += counts_.f1(i);
      }
      out.classes.push_back(counts_.score(i, names_[i]));
    }
    return sum / static_cast<double>(std::max<int64_t>(seen, 1));
  }

  std::vector<std::string> names_;
  int64_t rows_ = 0;
  int64_t correct_ = 0;
  double squares_ = 0;  // of distances between ids: whole numbers, so their order does not matter
  double loss_sum_ = 0;
  ClassCounts counts_;
  KeptScores kept_;
  std::vector<double> scores_;   // of a row, all classes
  std::vector<bool> has_label_;  // of a row, the classes whose scores are kept
  std::optional<size_t> f1_label_;
};

void predict(const Context& context, const data::RowColumns&, std::span<const float> logits,
             Prediction& out) {
  std::vector<double> scores(logits.size());
  softmax(logits, scores);
  out.scores.reserve(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) out.scores.emplace_back(context.labels[i], scores[i]);
  out.label = context.labels[argmax(logits)];
}

}  // namespace

const Task& classification_task() {
  static const Task task = {
      .name = "classification",
      .inputs = std::vector{models::InputKind::text, models::InputKind::image},
      .head = models::Head{.kind = models::HeadKind::row,
                           .problem_type = "single_label_classification"},
      .keys = std::vector<std::string>{"label_smoothing_factor", "class_weights", "focal_gamma",
                                       "label_order", "stratify", "f1_of", "sampler"},
      .kept = std::vector<std::string>{},
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
      .metrics = std::vector<Metric>{{.name = "accuracy", .aliases = {"micro_f1"}},
                                     {.name = "macro_f1", .aliases = {"f1"}},
                                     {.name = "weighted_f1"},
                                     {.name = "matthews", .aliases = {"matthews_correlation"}},
                                     {.name = "qwk", .takes_order = true},
                                     {.name = kRocAuc},
                                     {.name = kF1OfMetric}},
      .meter = [](const Context& context, int64_t rows) -> std::unique_ptr<Meter> {
        return std::make_unique<ClassMeter>(context, rows);
      },
      .bytes_of_rows =
          [](const TaskSettings& settings, int64_t labels, int64_t rows) {
            return KeptScores::bytes(labels == 2 ? 1 : labels, rows, settings);
          },
      .predict = predict,
      .predicted = "label"};
  return task;
}

}  // namespace snug::tasks
