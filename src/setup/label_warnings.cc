// SPDX-License-Identifier: Apache-2.0
#include "setup/label_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/listed.h"
#include "base/numbers.h"
#include "base/printable.h"
#include "base/stop.h"
#include "data/invisible.h"
#include "data/label_number.h"
#include "tasks/registry.h"
#include "text/normal_forms.h"
#include "text/unicode_rules.h"

namespace snug::train {
namespace {

constexpr int64_t kStopRows = 4096;

int64_t sum_of(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

double share_of(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<int64_t>(whole, 1));
}

/// What is left of a name without case, blanks, Unicode form, quotes around it and the spelling of
/// a number.
std::string bare(std::string_view name) {
  if (name.size() > 2 && name.starts_with('"') && name.ends_with('"'))
    name = name.substr(1, name.size() - 2);
  // Whole numbers of more digits than a double has are told apart; -0 is 0.
  if (const auto number = number_in<int64_t>(name)) return std::to_string(*number);
  if (const auto number = data::spelled_number(name)) return number_text(*number + 0.0);
  std::vector<ClassedPoint> points;
  std::string normal;
  append_normal_form(NormalForm::nfkc, name, points, normal);
  std::string lower;
  for (size_t at = 0; at < normal.size();) {
    const size_t begin = at;
    const char32_t c = next_code_point(normal, at);
    if (data::is_invisible(std::string_view(normal).substr(begin, at - begin))) continue;
    const ShortText small = lowercase(c);
    for (int i = 0; i < small.size; ++i) append_utf8(small.c[i], lower);
  }
  return lower;
}

std::optional<Warning> similar_labels(const data::Labels& labels,
                                      const std::vector<int64_t>& counts) {
  std::map<std::string, std::vector<int32_t>> alike;
  for (int32_t id = 0; id < labels.size(); ++id) alike[bare(labels.name(id))].push_back(id);
  std::vector<std::string> groups;
  int64_t rarer = 0;
  for (auto& [name, ids] : alike) {
    if (ids.size() < 2) continue;
    const auto count = [&](int32_t id) { return counts[static_cast<size_t>(id)]; };
    std::stable_sort(ids.begin(), ids.end(),
                     [&](int32_t a, int32_t b) { return count(a) > count(b); });
    std::vector<std::string> names;
    for (const int32_t id : ids)
      names.push_back(fmt::format("'{}' ({})", printable_name(labels.name(id)), count(id)));
    for (size_t i = 1; i < ids.size(); ++i) rarer += count(ids[i]);
    groups.push_back(joined(names, kListed));
  }
  if (groups.empty()) return {};
  return Warning{.code = "similar_labels",
                 .text =
                     "labels differ only in case, blanks, Unicode form, quotes or the spelling of "
                     "a number, and each is a class of its own: " +
                     joined(groups, kListed),
                 .count = rarer,
                 .share = share_of(rarer, sum_of(counts))};
}

std::optional<Warning> missing_labels(const std::string& file, const data::Labels& labels,
                                      const std::vector<int64_t>& counts) {
  std::vector<std::string> names;
  int64_t count = 0;
  for (int32_t id = 0; id < labels.size(); ++id) {
    const std::string& name = labels.name(id);
    if (data::spelled_number(name) != -1.0 && !data::says_missing(name)) continue;
    if (counts[static_cast<size_t>(id)] == 0) continue;
    names.push_back("'" + printable_name(name) + "'");
    count += counts[static_cast<size_t>(id)];
  }
  if (names.empty()) return {};
  const int64_t all = sum_of(counts);
  return Warning{.code = "missing_labels",
                 .text = fmt::format("{} of {} labels of {} are {}, which often says that there is "
                                     "none: here it is a class like the others (leave the label "
                                     "empty where a row has none)",
                                     count, all, file, joined(names, kListed)),
                 .count = count,
                 .share = share_of(count, all)};
}

std::optional<Warning> one_label(const std::string& file, const data::Labels& labels,
                                 const std::vector<int64_t>& counts) {
  const auto occurs = [](int64_t count) { return count > 0; };
  if (std::count_if(counts.begin(), counts.end(), occurs) != 1) return {};
  const auto only = std::find_if(counts.begin(), counts.end(), occurs) - counts.begin();
  return Warning{.code = "one_label",
                 .text = "every row of " + file + " has the label '" +
                         printable_name(labels.name(static_cast<int32_t>(only))) +
                         "': there is nothing to tell apart (label_column is the column of the "
                         "class)",
                 .count = counts[static_cast<size_t>(only)],
                 .share = 1.0};
}

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
std::vector<int64_t> counts_in(const data::RowStore& rows, const data::Part& part,
                               const data::RowForm& form, const IsEnough& is_enough) {
  std::vector<int64_t> counts(rows.labels().names().size(), 0);
  data::RowColumns columns;
  columns.reserve(rows.most_values());
  for (int64_t i = 0; i < part.size(); ++i) {
    if (i % kStopRows == 0) stop_point();
    if (i % kStopRows == 0 && is_enough(counts)) break;
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
  if (sum_of(held_out) == 0) return held_out;
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

std::optional<Warning> untrained_labels(const RunConfig& config, const Model& model,
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
  const int64_t count = sum_of(held_out);
  return Warning{
      .code = "untrained_labels",
      .text = "no row to train on has the label " + joined(names, kListed) + ": it is not learned" +
              (count > 0 ? " (stratify: true keeps rows of every label to train on)" : ""),
      .count = count,
      .share = share_of(count, sum_of(run.label_counts))};
}

std::optional<Warning> unordered_labels(const RunConfig& config, const Model& model,
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
                 .share = share_of(others, run.labels.size())};
}

void append(std::vector<Warning>& all, std::optional<Warning> warning) {
  if (warning) all.push_back(*std::move(warning));
}

}  // namespace

std::vector<Warning> label_warnings(const std::string& file, const data::Labels& labels,
                                    const std::vector<int64_t>& counts) {
  std::vector<Warning> all;
  append(all, one_label(file, labels, counts));
  append(all, similar_labels(labels, counts));
  append(all, missing_labels(file, labels, counts));
  return all;
}

std::vector<Warning> run_label_warnings(const RunConfig& config, const Model& model,
                                        const RunData& run) {
  std::vector<Warning> all;
  if (run.labels.size() == 0) return all;
  append(all, untrained_labels(config, model, run));
  append(all, unordered_labels(config, model, run));
  return all;
}

}  // namespace snug::train
