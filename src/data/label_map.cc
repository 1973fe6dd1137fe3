// SPDX-License-Identifier: Apache-2.0
#include "data/label_map.h"

#include <algorithm>

#include "base/numbers.h"
#include "base/printable.h"

namespace snug::data {
namespace {

constexpr size_t kListed = 8;

/// The number that is written exactly so: no sign, no leading zero, no space.
std::optional<int64_t> plain_number(std::string_view text) {
  const std::optional<int64_t> value = number_in<int64_t>(text);
  if (!value || *value < 0 || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  return value;
}

bool is_number(const std::string& name) { return plain_number(name).has_value(); }

/// Ids say which label is meant, unless the model's names are numbers themselves ("1" to "5").
bool takes_ids(const std::vector<std::string>& model) {
  return are_only_ids(model) || std::none_of(model.begin(), model.end(), is_number);
}

std::vector<int32_t> narrow(const std::vector<int64_t>& ids) {
  std::vector<int32_t> out;
  out.reserve(ids.size());
  for (const int64_t id : ids) out.push_back(static_cast<int32_t>(id));
  return out;
}

bool all_below(const std::vector<int64_t>& ids, size_t limit) {
  return std::all_of(ids.begin(), ids.end(),
                     [limit](int64_t id) { return id >= 0 && id < static_cast<int64_t>(limit); });
}

Error ambiguous_label(const std::string& where, std::string_view label, const Labels& model) {
  std::string ids;
  for (int32_t id = 0; id < model.size(); ++id) {
    if (model.name(id) == label) ids += (ids.empty() ? "" : ", ") + std::to_string(id);
  }
  return {
      ErrorCode::bad_data, where,
      "the label '" + std::string(label) + "' is the name of several classes of the model: " + ids,
      "give ids from 0 to " + std::to_string(model.size() - 1) + " as labels in the whole file"};
}

std::optional<LabelMap> match(const std::vector<std::string>& model, const DataLabels& data,
                              const std::string& where) {
  LabelMap map{.labels = Labels::from_names(model), .source = LabelSource::names};
  for (const std::string& name : data.names) {
    if (map.labels.is_repeated(name)) throw ambiguous_label(where, name, map.labels);
    if (const auto id = map.labels.find(name)) map.id_of.push_back(*id);
  }
  if (map.id_of.size() == data.names.size()) return map;
  // Names of something else beside ids (of images) are no match for a model that has names.
  const bool gives_only_ids = std::all_of(data.names.begin(), data.names.end(), is_number);
  const bool fits = takes_ids(model) && (gives_only_ids || are_only_ids(model));
  if (!fits || !all_below(data.ids, model.size())) return std::nullopt;
  map.id_of = narrow(data.ids);
  map.source = LabelSource::ids;
  return map;
}

LabelMap from_data(const LabelRule& rule, const DataLabels& data) {
  std::vector<std::string> names = data.names;
  if (rule.count > 0 && static_cast<int64_t>(names.size()) > rule.count) {
    throw Error(ErrorCode::bad_config, "num_labels",
                std::to_string(rule.count) + " is less than the data's " +
                    std::to_string(names.size()) + " labels: " + list_labels(names),
                "leave num_labels away, or remove the rows of the other labels");
  }
  LabelMap map;
  const auto count = static_cast<size_t>(rule.count);
  if (count > 0 && all_below(data.ids, count) &&
      std::all_of(names.begin(), names.end(), is_number)) {
    map.id_of = narrow(data.ids);
    names.clear();
    for (size_t id = 0; id < count; ++id) names.push_back(std::to_string(id));
  } else {
    for (size_t id = 0; id < names.size(); ++id) map.id_of.push_back(static_cast<int32_t>(id));
    for (size_t id = names.size(); id < count; ++id) names.push_back("LABEL_" + std::to_string(id));
  }
  map.labels = Labels::from_names(std::move(names));
  return map;
}

/// Data sets for competitions say so that the labels are kept back.
bool are_kept_back(const std::vector<std::string>& data) {
  return data.size() == 1 && data[0] == "-1";
}

Error labels_kept_back(const std::string& where) {
  return {ErrorCode::bad_data, where, "every label is -1, which stands for none",
          "give a file whose rows have labels; snug predict needs none"};
}

/// `hint`: what else helps.
Error unlike_trained(const std::string& where, const std::vector<std::string>& data,
                     const std::vector<std::string>& model, const std::string& hint) {
  if (are_kept_back(data)) return labels_kept_back(where);
  const std::string last = std::to_string(model.size() - 1);
  const bool is_nameless = are_only_ids(model);
  return {ErrorCode::bad_data, where,
          "the labels of the data are " + list_labels(data) + "; those of the trained model are " +
              list_labels(model) +
              (is_nameless ? ", which does not say which is which" : ", and the two do not match"),
          std::string(is_nameless ? "name the model's labels in id2label of its config.json"
                                  : "name the labels of the data as the model does") +
              (takes_ids(model) ? ", give ids from 0 to " + last + " as labels" : "") + hint};
}

}  // namespace

Error unlike_labels(const std::string& where, const Labels& data, const Labels& known,
                    bool is_trained) {
  if (is_trained) return unlike_trained(where, data.names(), known.names(), "");
  if (are_kept_back(data.names())) return labels_kept_back(where);
  return {ErrorCode::bad_data, where,
          "the labels of the data are " + list_labels(data.names()) +
              "; those of the training data are " + list_labels(known.names()) +
              ", and the two do not match",
          "name the labels as train_file does, or give another file"};
}

bool are_only_ids(const std::vector<std::string>& names) {
  const auto all_are = [&names](const std::string& prefix) {
    for (size_t id = 0; id < names.size(); ++id) {
      if (names[id] != prefix + std::to_string(id)) return false;
    }
    return true;
  };
  return all_are("LABEL_") || all_are("");
}

std::string list_labels(const std::vector<std::string>& names) {
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kListed); ++i)
    list += (i == 0 ? "" : ", ") + printable_name(names[i]);
  if (names.size() > kListed) list += ", ... (" + std::to_string(names.size()) + " in all)";
  return list;
}

DataLabels labels_of_text(const Labels& found) {
  DataLabels data{.names = found.names(), .ids = {}};
  for (const std::string& name : data.names) data.ids.push_back(plain_number(name).value_or(-1));
  return data;
}

LabelMap map_labels(const LabelRule& rule, const DataLabels& data, const std::string& where) {
  const bool asks_for_others =
      rule.count > 0 && rule.count != static_cast<int64_t>(rule.model.size());
  const bool binds = rule.is_trained || (!are_only_ids(rule.model) && !asks_for_others);
  if (!rule.model.empty() && binds) {
    if (std::optional<LabelMap> map = match(rule.model, data, where)) return *std::move(map);
    if (rule.is_trained)
      throw unlike_trained(where, data.names, rule.model,
                           ", or set fresh_head to train a new head for the labels of the data");
  }
  return from_data(rule, data);
}

LabelLookup::LabelLookup(const Labels& model)
    : model_(&model), takes_ids_(takes_ids(model.names())) {}

std::optional<int32_t> LabelLookup::find(std::string_view label, const std::string& where) {
  if (model_->is_repeated(label)) throw ambiguous_label(where, label, *model_);
  std::optional<int32_t> id = model_->find(label);
  LabelSource source = LabelSource::names;
  if (!id && takes_ids_) {
    const std::optional<int64_t> number = plain_number(label);
    if (number && *number < model_->size()) id = static_cast<int32_t>(*number);
    source = LabelSource::ids;
  }
  if (!id) return std::nullopt;
  if (source_.value_or(source) != source) {
    throw Error(ErrorCode::bad_data, where,
                "the label '" + std::string(label) +
                    (source == LabelSource::ids ? "' is an id, those before are names"
                                                : "' is a name, those before are ids"),
                "give names alone or ids alone in one file");
  }
  source_ = source;
  return id;
}

}  // namespace snug::data
