// SPDX-License-Identifier: Apache-2.0
// One or several numbers a row: mean squared or smooth L1 error. B rows, K targets.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/utf8.h"
#include "data/label_number.h"
#include "ops/loss/loss.h"
#include "snug/error.h"
#include "tasks/class_counts.h"
#include "tasks/task.h"

namespace snug::tasks {
namespace {

constexpr const char* kSquared = "mse";

float target_of(const std::string& text, const std::string& where) {
  const std::optional<double> value = data::spelled_number(text);
  if (!value) {
    const bool is_nothing = data::says_missing(text);
    throw Error(ErrorCode::bad_data, where,
                "the label '" + clip_text(text, 40) + "' is no " +
                    (is_nothing ? "finite number" : "number"),
                is_nothing ? "leave the label empty (such rows are left out), or set bad_rows to "
                             "skip, which leaves them out, too, and counts them"
                           : R"(write "label": 0.5 or "label": [0.5, 2], set bad_rows to skip, or )"
                             "set task to another");
  }
  const auto narrow = static_cast<float>(*value);
  if (!std::isfinite(narrow)) {
    throw Error(ErrorCode::bad_data, where,
                "the label " + clip_text(text, 40) + " does not fit 32 bits", "scale the targets");
  }
  return narrow;
}

void read_row(const data::Row& row, const data::EncodedRow&, const std::string& where,
              std::span<data::ColumnDraft> columns) {
  if (!row.label) return;
  if (row.label->items.empty())
    throw Error(ErrorCode::bad_data, where, "the label is an empty list", "give it a number");
  for (const std::string& item : row.label->items)
    columns[0].reals.push_back(target_of(item, where));
}

// labels f32(B, K), row_weights f32(B): 0 for padding rows.
void append_loss(GraphBuilder& builder, models::SequenceModel& model,
                 const TaskSettings& settings) {
  const Shape shape = builder.shape(model.logits);
  declare_labels(builder, model, {DType::f32, shape}, {shape[0]});
  const ScopeGuard scope(builder, "loss");
  const auto loss = settings.regression_loss == kSquared ? mean_squared_error : smooth_l1;
  model.loss = loss(builder, model.logits, model.labels, model.row_weights, model.inv_total);
}

void feed(const data::RowColumns& row, const FedRow& fed) {
  const std::span<float> labels(reinterpret_cast<float*>(fed.labels.data()),
                                fed.labels.size() / sizeof(float));
  fed.weights[0] = 1;
  std::copy_n(row.reals(0).begin(), labels.size(), labels.begin());
}

// ---- metrics ----

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double root_mean_square(std::span<const double> a, std::span<const double> b) {
  if (a.empty()) return kUndefined;
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares / static_cast<double>(a.size()));
}

// Exactly: a mean of equal numbers may be rounded.
bool is_constant(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [&](double x) { return x == values.front(); });
}

// Not defined where one of the two does not vary.
double correlation(std::span<const double> a, std::span<const double> b) {
  if (a.size() < 2 || is_constant(a) || is_constant(b)) return kUndefined;
  const double mean_a = mean(a);
  const double mean_b = mean(b);
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  if (aa == 0 || bb == 0) return kUndefined;
  return std::clamp(ab / std::sqrt(aa) / std::sqrt(bb), -1.0, 1.0);
}

// In place: equal values share the mean of their places.
void to_ranks(std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    const double value = values[order[begin]];
    while (end < order.size() && values[order[end]] == value) ++end;
    for (size_t i = begin; i < end; ++i)
      values[order[i]] = static_cast<double>(begin + end + 1) / 2;
    begin = end;
  }
}

constexpr int64_t kBytesPerValue = 2 * sizeof(float);
constexpr int64_t kBytesPerRank = 2 * sizeof(double) + sizeof(size_t);

/// Keeps every value: ranks need all of them.
class NumberMeter final : public Meter {
 public:
  NumberMeter(const Context& context, int64_t rows)
      : targets_(context.labels.size()), loss_(context.settings.regression_loss) {
    found_.reserve(targets_ * static_cast<size_t>(rows));
    wanted_.reserve(targets_ * static_cast<size_t>(rows));
  }

  void add(const data::RowColumns& row, std::span<const float> output) override {
    found_.insert(found_.end(), output.begin(), output.end());
    wanted_.insert(wanted_.end(), row.reals(0).begin(), row.reals(0).end());
  }

  [[nodiscard]] EvalMetrics result() const override {
    const size_t rows = targets_ == 0 ? 0 : found_.size() / targets_;
    EvalMetrics out{.rows = static_cast<int64_t>(rows), .loss = 0, .values = {}, .classes = {}};
    double squares = 0;
    double distances = 0;
    double smooth = 0;
    for (size_t i = 0; i < found_.size(); ++i) {
      const double distance =
          std::abs(static_cast<double>(found_[i]) - static_cast<double>(wanted_[i]));
      squares += distance * distance;
      distances += distance;
      smooth += distance < 1 ? distance * distance / 2 : distance - 0.5;
    }
    double pearson = 0;
    double spearman = 0;
    double root = 0;
    for (size_t target = 0; target < targets_; ++target) {
      std::vector<double> found = column(found_, target);
      std::vector<double> wanted = column(wanted_, target);
      root += root_mean_square(found, wanted) / static_cast<double>(targets_);
      pearson += correlation(found, wanted) / static_cast<double>(targets_);
      to_ranks(found);
      to_ranks(wanted);
      spearman += correlation(found, wanted) / static_cast<double>(targets_);
    }
    const double count = std::max<double>(1, static_cast<double>(found_.size()));
    out.loss = (loss_ == kSquared ? squares : smooth) / count;
    const double mse = rows == 0 ? kUndefined : squares / count;
    const double mae = rows == 0 ? kUndefined : distances / count;
    out.values = {{"mse", mse, number_text("MSE", mse)},
                  {"rmse", root, number_text("RMSE", root)},
                  {"mcrmse", root, number_text("MCRMSE", root)},
                  {"mae", mae, number_text("MAE", mae)},
                  {"pearson", pearson, number_text("Pearson", pearson)},
                  {"spearman", spearman, number_text("Spearman", spearman)}};
    return out;
  }

 private:
  [[nodiscard]] std::vector<double> column(const std::vector<float>& values, size_t target) const {
    std::vector<double> out;
    out.reserve(values.size() / targets_);
    for (size_t i = target; i < values.size(); i += targets_)
      out.push_back(static_cast<double>(values[i]));
    return out;
  }

  size_t targets_;
  std::string loss_;
  std::vector<float> found_;
  std::vector<float> wanted_;
};

void predict(const Context&, const data::RowColumns&, std::span<const float> output,
             Prediction& out) {
  out.values.assign(output.begin(), output.end());
}

}  // namespace

const Task& regression_task() {
  static const Task task = {
      .name = "regression",
      .inputs = std::vector{models::InputKind::text},
      .head = models::Head{.kind = models::HeadKind::row, .problem_type = "regression"},
      .keys = std::vector<std::string>{"regression_loss"},
      .kept = std::vector<std::string>{"regression_loss"},
      .least_labels = int64_t{1},
      .rows = data::RowForm{.name = "numbers",
                            .has_words = false,
                            .columns = {{.name = "label",
                                         .form = data::ColumnForm::vector,
                                         .type = data::ColumnType::real}},
                            .read = read_row},
      .fits =
          [](const data::LabelSurvey& labels) {
            return (labels.lists_of_numbers > 0 && labels.lists_of_words == 0) ||
                   (labels.all_numbers && labels.has_fraction);
          },
      .weight = [](const data::RowColumns&) { return 1.0; },
      .append_loss = append_loss,
      .feed = feed,
      .metrics = std::vector<Metric>{{.name = "mse", .is_greater_better = false},
                                     {.name = "rmse", .is_greater_better = false},
                                     {.name = "mcrmse", .is_greater_better = false},
                                     {.name = "mae", .is_greater_better = false},
                                     {.name = "pearson"},
                                     {.name = "spearman"}},
      .meter = [](const Context& context, int64_t rows) -> std::unique_ptr<Meter> {
        return std::make_unique<NumberMeter>(context, rows);
      },
      .bytes_of_rows =
          [](const TaskSettings&, int64_t labels, int64_t rows) {
            return (kBytesPerValue * labels + kBytesPerRank) * rows;
          },
      .predict = predict,
      .predicted = "values"};
  return task;
}

}  // namespace snug::tasks
