// SPDX-License-Identifier: Apache-2.0
#include "run_rows/input.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/printable.h"
#include "notices/say.h"
#include "run_rows/run_label_warnings.h"
#include "snug/error.h"

namespace snug::run_rows {

const Input& input_of(const run_model::Model& model) {
  switch (*model.family().info().input) {
    case models::InputKind::text:
      return text_input();
    case models::InputKind::image:
      return image_input();
  }
  throw Error(ErrorCode::internal, model.name, "rows of no kind");
}

namespace {

void refuse_to_stop_early_without_rows(const RunConfig& config) {
  // Older versions took the threshold alone; their runs can be finished.
  if (config.early_stopping_threshold > 0 && config.early_stopping_patience == 0 && !config.resume)
    throw Error(ErrorCode::bad_config, "early_stopping_threshold",
                "it decides what ends a run, and early_stopping_patience, which is 0, ends none",
                "give early_stopping_patience, or omit early_stopping_threshold");
  if (config.early_stopping_patience == 0 || !config.validation_file.empty() ||
      config.validation_split > 0)
    return;
  throw Error(ErrorCode::bad_config, "early_stopping_patience",
              std::to_string(config.early_stopping_patience) +
                  " evaluations end no run that has none: validation_split is 0, and there is no "
                  "validation_file",
              "give validation_file or validation_split, or omit early_stopping_patience");
}

}  // namespace

RunData open_training_data(const RunConfig& config, const RunOptions& options,
                           const run_model::Model& model, const std::string& tokenizer_folder,
                           const WorkFolder& work) {
  config.require({"train_file"});
  refuse_to_stop_early_without_rows(config);
  RunData run;
  input_of(model).open_training(config, options, model, tokenizer_folder, work, run);
  run.drops_remainder = model.traits.has_batch_statistics;
  const int64_t rows = run.train->rows();
  run.train_part = data::Subset::all(rows);
  if (run.validation) {
    run.validation_part = data::Subset::all(run.validation->rows());
  } else if (config.validation_split > 0) {
    const data::Split split = split_of(config, *run.train, *model.task->rows);
    run.train_part = split.train;
    run.validation_part = split.validation;
  }
  notices::warn(options, run_label_warnings(config, model, run));
  if (config.sampler == "balanced")
    run.balanced = balanced_rows(config, run, *model.task->rows, work.path() + "/balanced");
  return run;
}

namespace {

/// The label of a row, where the form has one: its ids are read into `values`.
std::function<int32_t(int64_t row)> label_reader(const data::RowStore& rows,
                                                 const data::RowForm& form,
                                                 data::RowColumns& values) {
  const auto column = std::find_if(
      form.columns.begin(), form.columns.end(),
      [](const data::ColumnSpec& each) { return each.type == data::ColumnType::label; });
  SNUG_CHECK(column != form.columns.end() && column->form == data::ColumnForm::scalar,
             "one label a row is needed");
  const auto index = static_cast<size_t>(column - form.columns.begin());
  values.reserve(rows.most_values());
  return [&rows, &values, index](int64_t row) {
    rows.read_columns(row, values);
    return values.integers(index).front();
  };
}

}  // namespace

data::Split split_of(const RunConfig& config, const data::RowStore& rows,
                     const data::RowForm& form) {
  const auto seed = static_cast<uint64_t>(config.seed);
  if (!config.stratify) return data::split_rows(rows.rows(), config.validation_split, seed);
  // A row has one label in every task that takes the key.
  data::RowColumns values;
  return data::split_by_label(rows.rows(), label_reader(rows, form, values),
                              config.validation_split, seed);
}

std::unique_ptr<const data::BalancedRows> balanced_rows(const RunConfig& config, const RunData& run,
                                                        const data::RowForm& form,
                                                        const std::string& scratch) {
  data::RowColumns values;
  return std::make_unique<const data::BalancedRows>(run.train_part, run.labels.size(),
                                                    label_reader(*run.train, form, values),
                                                    static_cast<uint64_t>(config.seed), scratch);
}

std::string labels_text(const nlohmann::ordered_json& labels) {
  std::string out;
  if (!labels.empty()) out += fmt::format("  {} labels\n", labels.size());
  for (const auto& [name, count] : labels.items())
    out += fmt::format("  {:>9}  {}\n", count.get<int64_t>(), printable_name(name));
  return out;
}

}  // namespace snug::run_rows
