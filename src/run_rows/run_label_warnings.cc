// SPDX-License-Identifier: Apache-2.0
#include "run_rows/run_label_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/listed.h"
#include "base/printable.h"
#include "base/stop.h"
#include "data/label_number.h"
#include "notices/label_warnings.h"
#include "notices/say.h"
#include "tasks/registry.h"

namespace snug::run_rows {
namespace {

constexpr int64_t kRowsUntilStop = 4096;

/// Calls take(id) for every label of a row.
template <class Take>
void for_labels(const data::RowForm& form, const data::RowColumns& row, const Take& take) {
  for (size_t i = 0; i < form.columns.size(); ++i) {
    if (form.columns[i].type != data::ColumnType::label) continue;
    for (const int32_t id : row.integers(i)) take(static_cast<size_t>(id));
  }
}

/// How often each label stands in the rows of a part, until take(counts) says that it is enough.
template <class IsEnough>
std::vector<int64_t> counts_in(const data::RowStore& rows, const data::Subset& part,
                               const data::RowForm& form, const IsEnough& is_enough) {
  std::vector<int64_t> counts(rows.labels().names().size(), 0);
  data::RowColumns columns;
  columns.reserve(rows.most_values());
  for (int64_t i = 0; i < part.size(); ++i) {
    if (i % kRowsUntilStop == 0) stop_point();
    if (i % kRowsUntilStop == 0 && is_enough(counts)) break;
    rows.read_columns(part.row(i), columns);
    for_labels(form, columns, [&](size_t id) { ++counts[id]; });
  }
  return counts;
}

/// Held-out rows by label, 0 for labels that a row to train on has. The rows to train on, which are
/// many, are read only where all rows of a label may be held out.
std::vector<int64_t> held_out_alone(const RunData& run, const data::RowForm& form) {
  const auto never = [](const std::vector<int64_t>&) { return false; };
  std::vector<int64_t> held_out = counts_in(*run.train, run.validation_part, form, never);
  for (size_t id = 0; id < held_out.size(); ++id) {
    if (held_out[id] < run.label_counts[id]) held_out[id] = 0;
  }
  if (notices::sum_of(held_out) == 0) return held_out;
  const auto are_all_found = [&](const std::vector<int64_t>& counts) {
    for (size_t id = 0; id < counts.size(); ++id) {
      if (held_out[id] > 0 && counts[id] == 0) return false;
    }
    return true;
  };
  const std::vector<int64_t> trained = counts_in(*run.train, run.train_part, form, are_all_found);
  for (size_t id = 0; id < held_out.size(); ++id) {
    if (trained[id] > 0) held_out[id] = 0;
  }
  return held_out;
}

std::optional<Warning> untrained_labels(const RunConfig& config, const run_model::Model& model,
                                        const RunData& run) {
  const bool is_split = run.validation == nullptr && run.validation_part.size() > 0;
  std::vector<int64_t> held_out(run.label_counts.size(), 0);
  if (is_split) held_out = held_out_alone(run, *model.task->rows);
  std::vector<std::string> names;
  for (int32_t id = 0; id < run.labels.size(); ++id) {
    const std::string& name = run.labels.name(id);
    const auto i = static_cast<size_t>(id);
    // A trained head may know more than the data has, and num_labels asks for more.
    const bool is_asked_for = run.label_source != data::LabelSource::data ||
                              name == "LABEL_" + std::to_string(id) || config.num_labels > 0;
    if (held_out[i] > 0) {
      names.push_back(fmt::format("'{}' ({} held out)", printable_name(name), held_out[i]));
    } else if (run.label_counts[i] == 0 && !is_asked_for) {
      names.push_back("'" + printable_name(name) + "' (0)");
    }
  }
  if (names.empty()) return {};
  const int64_t count = notices::sum_of(held_out);
  return Warning{
      .code = "untrained_labels",
      .text = "no row to train on has the label " + joined(names, kListed) + ": it is not learned" +
              (count > 0 ? " (stratify: true keeps rows of every label to train on)" : ""),
      .count = count,
      .share = notices::share_of(count, notices::sum_of(run.label_counts))};
}

std::optional<Warning> unordered_labels(const RunConfig& config, const run_model::Model& model,
                                        const RunData& run) {
  const tasks::Metric* metric = tasks::find_metric(*model.task, config.metric_for_best_model);
  const bool is_said =
      run.label_source != data::LabelSource::data || !model.label_rule.order_key.empty();
  const std::vector<std::string>& names = run.labels.names();
  const auto others = std::count_if(names.begin(), names.end(), [](const std::string& name) {
    return !data::spelled_number(name).has_value();
  });
  if (metric == nullptr || !metric->takes_order || is_said || others == 0 || names.size() < 3)
    return {};
  return Warning{.code = "label_order",
                 .text = "metric_for_best_model " + metric->name + " takes the labels for steps " +
                         "in the order of their ids, and " + std::to_string(others) +
                         " of them are no numbers: " + data::list_labels(names) +
                         " (label_order says another order)",
                 .count = others,
                 .share = notices::share_of(others, run.labels.size())};
}

}  // namespace

std::vector<Warning> run_label_warnings(const RunConfig& config, const run_model::Model& model,
                                        const RunData& run) {
  std::vector<Warning> all;
  if (run.labels.size() == 0) return all;
  for (std::optional<Warning> warning :
       {untrained_labels(config, model, run), unordered_labels(config, model, run)}) {
    if (warning) all.push_back(*std::move(warning));
  }
  return all;
}

}  // namespace snug::run_rows
