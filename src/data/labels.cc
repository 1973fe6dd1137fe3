// SPDX-License-Identifier: Apache-2.0
// Label tables of labels.h.
#include "data/labels.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/listed.h"
#include "base/numbers.h"
#include "base/printable.h"
#include "data/label_number.h"

namespace snug::data {
namespace {

constexpr size_t kMaxContinuousLabels = 64;
constexpr int32_t kRepeated = -1;

using Entry = std::pair<const std::string, int32_t>;

// Whole numbers in their usual spelling are compared in full, which no double does for all.
bool is_lower_integer(const Entry* a, const Entry* b) {
  return *number_in<int64_t>(a->first) < *number_in<int64_t>(b->first);
}

bool is_lower_number(const Entry* a, const Entry* b) {
  return *spelled_number(a->first) < *spelled_number(b->first);
}

}  // namespace

Labels Labels::from_names(std::vector<std::string> names) {
  Labels labels;
  labels.names_ = std::move(names);
  for (size_t id = 0; id < labels.names_.size(); ++id) {
    const auto [entry, is_new] = labels.ids_.emplace(labels.names_[id], static_cast<int32_t>(id));
    if (!is_new) entry->second = kRepeated;
  }
  return labels;
}

std::optional<int32_t> Labels::find(std::string_view name) const {
  const auto found = ids_.find(name);
  if (found == ids_.end() || found->second == kRepeated) return std::nullopt;
  return found->second;
}

bool Labels::is_repeated(std::string_view name) const {
  const auto found = ids_.find(name);
  return found != ids_.end() && found->second == kRepeated;
}

std::vector<std::string> told_apart(std::vector<std::string> names) {
  const Labels labels = Labels::from_names(names);
  for (size_t id = 0; id < names.size(); ++id) {
    if (labels.is_repeated(names[id])) names[id] += " (" + std::to_string(id) + ")";
  }
  return names;
}

std::string list_labels(const std::vector<std::string>& names) {
  std::vector<std::string> printable;
  for (const std::string& name : names) printable.push_back(printable_name(name));
  return joined(printable, kListed);
}

Error unseen_label(const std::string& where, std::string_view label, const KnownLabels& labels) {
  return Error(ErrorCode::bad_data, where,
               "the label '" + std::string(label.substr(0, kMaxLabelBytes)) +
                   (labels.is_trained ? "' is none of the trained model"
                                      : "' does not occur in the training data"),
               "the known labels are " + list_labels(labels.known.names()) +
                   (labels.of_files.empty() ? "" : ", those of the data " + labels.of_files) +
                   "; correct the row, or set bad_rows to skip");
}

int32_t LabelFinder::add(std::string_view label, const std::string& where) {
  const auto found = ids_.find(label);
  if (found != ids_.end()) return found->second;
  if (static_cast<int64_t>(label.size()) > kMaxLabelBytes) {
    throw Error(ErrorCode::bad_data, where,
                "a label of " + std::to_string(label.size()) + " bytes (at most " +
                    std::to_string(kMaxLabelBytes) + ")",
                "set label_column to the column that holds the class");
  }
  if (static_cast<int64_t>(ids_.size()) == kMaxLabels) {
    throw Error(ErrorCode::unsupported, where,
                "more than " + std::to_string(kMaxLabels) + " different labels",
                "set label_column to the column that holds the class");
  }
  const auto id = static_cast<int32_t>(ids_.size());
  ids_.emplace(std::string(label), id);
  return id;
}

LabelFinder::Result LabelFinder::finish() const {
  std::vector<const Entry*> entries;  // bytewise, as in the map
  bool all_integers = true;
  bool all_numbers = true;
  for (const auto& entry : ids_) {
    entries.push_back(&entry);
    all_integers = all_integers && number_in<int64_t>(entry.first).has_value();
    all_numbers = all_numbers && spelled_number(entry.first).has_value();
  }
  if (!all_integers && all_numbers && entries.size() > kMaxContinuousLabels) {
    throw Error(ErrorCode::unsupported, "label_column",
                "the labels are " + std::to_string(entries.size()) + " different numbers such as " +
                    entries.front()->first,
                "set task to regression, name the classes, or set label_column to the column that "
                "holds them");
  }
  if (all_numbers)
    std::stable_sort(entries.begin(), entries.end(),
                     all_integers ? is_lower_integer : is_lower_number);
  Result result;
  result.final_id.resize(entries.size());
  std::vector<std::string> names;
  for (size_t id = 0; id < entries.size(); ++id) {
    result.final_id[entries[id]->second] = static_cast<int32_t>(id);
    names.push_back(entries[id]->first);
  }
  result.labels = Labels::from_names(std::move(names));
  return result;
}

std::vector<std::string> in_default_order(const std::vector<std::string>& names) {
  LabelFinder finder;
  for (const std::string& name : names) (void)finder.add(name, "labels");
  return finder.finish().labels.names();
}

}  // namespace snug::data
