// SPDX-License-Identifier: Apache-2.0
#include "data/label_map.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/numbers.h"
#include "base/printable.h"
#include "data/label_number.h"

namespace snug::data {
namespace {

/// The number that is written exactly so: no sign, no leading zero, no space.
std::optional<int64_t> plain_number(std::string_view text) {
  const std::optional<int64_t> value = number_in<int64_t>(text);
  if (!value || *value < 0 || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  return value;
}

bool is_number(const std::string& name) { return plain_number(name).has_value(); }

/// Ids say which label is meant, unless the model's names are numbers themselves ("1" to "5").
bool takes_ids(const std::vector<std::string>& model, const NumericNames& numbers) {
  return are_only_ids(model) || !numbers.are_names();
}

[[noreturn]] void refuse_two_readings(const std::string& where, int64_t id, int32_t other,
                                      const std::vector<std::string>& model) {
  const auto name = [&](int64_t i) { return printable_name(model[static_cast<size_t>(i)]); };
  throw Error(ErrorCode::bad_data, where,
              "the label " + std::to_string(id) + " has two readings: as an id it is the class '" +
                  name(id) + "', and '" + name(other) + "' says that number, too",
              "give the names of the classes as labels: " + list_labels(model));
}

void check_readings(const std::string& where, int64_t id, const std::vector<std::string>& model,
                    const NumericNames& numbers) {
  if (const auto other = numbers.find_within(id)) refuse_two_readings(where, id, *other, model);
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
  const NumericNames numbers(model);
  for (const std::string& name : data.names) {
    if (map.labels.is_repeated(name)) throw ambiguous_label(where, name, map.labels);
    if (const auto id = find_class(map.labels, numbers, name)) map.id_of.push_back(*id);
  }
  if (map.id_of.size() == data.names.size()) return map;
  // Names of something else beside ids (of images) are no match for a model that has names.
  const bool gives_only_ids = std::all_of(data.names.begin(), data.names.end(), is_number);
  const bool fits = takes_ids(model, numbers) && (gives_only_ids || are_only_ids(model));
  if (!fits || !all_below(data.ids, model.size())) return std::nullopt;
  for (const int64_t id : data.ids) check_readings(where, id, model, numbers);
  map.id_of = narrow(data.ids);
  map.source = LabelSource::ids;
  return map;
}

void refuse_more_than(int64_t count, const std::vector<std::string>& names, const char* whose) {
  if (count == 0 || static_cast<int64_t>(names.size()) <= count) return;
  throw Error(ErrorCode::bad_config, "num_labels",
              std::to_string(count) + " is less than the " + whose + " " +
                  std::to_string(names.size()) + " labels: " + list_labels(names),
              "omit num_labels, or remove the rows of the other labels");
}

void add_nameless(std::vector<std::string>& names, int64_t count) {
  for (auto id = static_cast<int64_t>(names.size()); id < count; ++id)
    names.push_back("LABEL_" + std::to_string(id));
}

/// Numbers are places in an order of names that are none. Nothing where the data's labels are
/// names.
std::optional<LabelMap> in_places(const LabelRule& rule, const std::vector<std::string>& names,
                                  const DataLabels& data, const NumericNames& numbers) {
  const bool are_places = !numbers.are_names() && !data.names.empty() &&
                          std::all_of(data.names.begin(), data.names.end(), is_number);
  if (!are_places || (rule.order_key.empty() && !all_below(data.ids, names.size())))
    return std::nullopt;
  const int64_t last = *std::max_element(data.ids.begin(), data.ids.end());
  if (std::cmp_greater_equal(last, names.size()))
    throw Error(ErrorCode::bad_config, rule.order_key,
                "it has " + std::to_string(names.size()) + " names, for the ids 0 to " +
                    std::to_string(names.size() - 1) + ", and the data have the id " +
                    std::to_string(last),
                "list every label once, in the order of the ids");
  for (const int64_t id : data.ids)
    check_readings(rule.order_key.empty() ? "label_order" : rule.order_key, id, names, numbers);
  LabelMap map{.labels = Labels::from_names(names), .id_of = narrow(data.ids)};
  return map;
}

/// Nothing where the order lacks a label of the data, and no key says that it must have it.
std::optional<LabelMap> in_order(const LabelRule& rule, const DataLabels& data) {
  std::vector<std::string> names = rule.order;
  if (!rule.order_key.empty()) refuse_more_than(rule.count, names, "order's");
  add_nameless(names, rule.count);
  LabelMap map{.labels = Labels::from_names(std::move(names))};
  const NumericNames numbers(map.labels.names());
  if (std::optional<LabelMap> places = in_places(rule, map.labels.names(), data, numbers))
    return places;
  for (const std::string& name : data.names) {
    const auto id = find_class(map.labels, numbers, name);
    if (!id && rule.order_key.empty()) return std::nullopt;
    if (!id)
      throw Error(ErrorCode::bad_config, rule.order_key,
                  "it lacks the label '" + printable_name(name) +
                      "' of the data, whose labels are " + list_labels(data.names),
                  "list every label once, in its order");
    map.id_of.push_back(*id);
  }
  return map;
}

LabelMap from_data(const LabelRule& rule, const DataLabels& data) {
  std::vector<std::string> names = data.names;
  refuse_more_than(rule.count, names, "data's");
  LabelMap map;
  const auto count = static_cast<size_t>(rule.count);
  if (count > 0 && all_below(data.ids, count) &&
      std::all_of(names.begin(), names.end(), is_number)) {
    map.id_of = narrow(data.ids);
    names.clear();
    for (size_t id = 0; id < count; ++id) names.push_back(std::to_string(id));
  } else {
    for (size_t id = 0; id < names.size(); ++id) map.id_of.push_back(static_cast<int32_t>(id));
    add_nameless(names, rule.count);
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
              (takes_ids(model, NumericNames(model)) ? ", give ids from 0 to " + last + " as labels"
                                                     : "") +
              hint};
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

DataLabels labels_of_text(const Labels& found) {
  DataLabels data{.names = found.names(), .ids = {}};
  for (const std::string& name : data.names) data.ids.push_back(plain_number(name).value_or(-1));
  return data;
}

LabelMap map_labels(const LabelRule& rule, const DataLabels& data, const std::string& where) {
  const bool asks_for_others =
      rule.count > 0 && rule.count != static_cast<int64_t>(rule.model.size());
  const bool binds = rule.is_trained || (!are_only_ids(rule.model) && !asks_for_others);
  if (!rule.is_trained && !rule.order.empty()) {
    if (std::optional<LabelMap> map = in_order(rule, data)) return *std::move(map);
  }
  if (!rule.model.empty() && binds) {
    if (std::optional<LabelMap> map = match(rule.model, data, where)) return *std::move(map);
    if (rule.is_trained)
      throw unlike_trained(where, data.names, rule.model,
                           ", or set fresh_head to train a new head for the labels of the data");
  }
  return from_data(rule, data);
}

NumericNames::NumericNames(const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (const auto value = spelled_number(names[i])) {
      whole_.emplace_back(*value, id);
    } else {
      for (const double within : numbers_within(names[i])) within_.emplace_back(within, id);
    }
  }
  std::sort(whole_.begin(), whole_.end());
  std::sort(within_.begin(), within_.end());
}

std::optional<int32_t> NumericNames::find(double value) const {
  constexpr auto kLowest = std::numeric_limits<int32_t>::min();
  const auto found = std::lower_bound(whole_.begin(), whole_.end(), std::pair(value, kLowest));
  if (found == whole_.end() || found->first != value) return std::nullopt;
  const auto next = found + 1;
  return next != whole_.end() && next->first == value ? std::nullopt : std::optional(found->second);
}

std::optional<int32_t> NumericNames::find_within(int64_t id) const {
  const auto value = static_cast<double>(id);
  constexpr auto kLowest = std::numeric_limits<int32_t>::min();
  auto found = std::lower_bound(within_.begin(), within_.end(), std::pair(value, kLowest));
  while (found != within_.end() && found->first == value && found->second == id) ++found;
  if (found == within_.end() || found->first != value) return std::nullopt;
  return found->second;
}

std::optional<int32_t> find_class(const Labels& model, const NumericNames& numbers,
                                  std::string_view label) {
  if (const auto id = model.find(label)) return id;
  if (!numbers.are_names()) return std::nullopt;
  const std::optional<double> value = spelled_number(label);
  const std::optional<int32_t> id = value ? numbers.find(*value) : std::nullopt;
  if (!id) return std::nullopt;
  // A double does not tell all whole numbers apart.
  const std::optional<int64_t> own = number_in<int64_t>(label);
  const std::optional<int64_t> found = number_in<int64_t>(model.name(*id));
  return own && found && *own != *found ? std::nullopt : id;
}

LabelLookup::LabelLookup(const Labels& model)
    : model_(&model), numbers_(model.names()), takes_ids_(takes_ids(model.names(), numbers_)) {}

std::optional<LabelLookup::Found> LabelLookup::look(std::string_view label,
                                                    const std::string& where) const {
  if (model_->is_repeated(label)) throw ambiguous_label(where, label, *model_);
  if (const auto id = find_class(*model_, numbers_, label))
    return Found{.id = *id, .source = LabelSource::names};
  const std::optional<int64_t> id = takes_ids_ ? plain_number(label) : std::nullopt;
  if (!id || *id >= model_->size()) return std::nullopt;
  check_readings(where, *id, model_->names(), numbers_);
  return Found{.id = static_cast<int32_t>(*id), .source = LabelSource::ids};
}

std::optional<int32_t> LabelLookup::find(std::string_view label, const std::string& where) {
  const std::optional<Found> found = look(label, where);
  if (!found) return std::nullopt;
  if (source_.value_or(found->source) != found->source) {
    throw Error(ErrorCode::bad_data, where,
                "the label '" + std::string(label) +
                    (found->source == LabelSource::ids ? "' is an id, those before are names"
                                                       : "' is a name, those before are ids"),
                "give only names or only ids in one file");
  }
  source_ = found->source;
  return found->id;
}

}  // namespace snug::data
