// SPDX-License-Identifier: Apache-2.0
#include "models/config_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/limits.h"
#include "base/numbers.h"
#include "io/json_tree.h"
#include "nn/layers.h"
#include "snug/error.h"

namespace snug::models {

std::string ConfigReader::io_number(double value) { return digits_text(value, 6); }

void ConfigReader::require_text(const std::string& key, std::string_view only,
                                const std::string& reason) {
  const auto field = find(key);
  if (!field || field->as_string() == only) return;
  field->fail("is \"" + field->as_string() + "\": " + reason,
              "only \"" + std::string(only) + "\" is supported");
}

void ConfigReader::require_bool(const std::string& key, bool only, const std::string& reason) {
  const auto field = find(key);
  if (!field || field->as_bool() == only) return;
  field->fail(std::string(only ? "is false: " : "is true: ") + reason);
}

void ConfigReader::refuse_other_forms() {
  require_bool("is_decoder", false, "a decoder's causal mask is not supported");
  require_bool("add_cross_attention", false, "cross-attention is not supported");
  require_bool("is_encoder_decoder", false, "encoder-decoder models are not supported");
  if (const auto pruned = find("pruned_heads")) {
    if (pruned->size() != 0) pruned->fail("is not empty: pruned heads are not supported");
  }
  if (const auto quantized = find("quantization_config"))
    quantized->fail("is there: quantized weights are not supported");
}

void ConfigReader::read_activation(const std::string& key, std::string& name) {
  const auto field = find(key);
  if (!field) return;
  name = field->as_string();
  if (!nn::find_activation(name)) {
    field->fail("is \"" + name + "\", which is not supported",
                "gelu, gelu_new, gelu_pytorch_tanh, relu, tanh or sigmoid");
  }
}

void ConfigReader::read_token_id(const std::string& key, int64_t& value) {
  read_int(key, value, -1);
  if (is_null(key)) value = -1;
}

void ConfigReader::read_ints(const std::string& key, std::vector<int64_t>& values, int64_t min) {
  const auto field = find(key);
  if (!field) return;
  if (!field->is_array()) field->fail("must be a list of sizes");
  values.clear();
  for (int64_t i = 0; i < field->size(); ++i)
    values.push_back(field->at(i).as_int(min, int64_t{1} << 31));
}

namespace {

/// What label2id alone says, where that is a name for each of the ids; else nothing. `count`: of
/// labels, 0: not known.
std::vector<std::string> names_by_id(const std::optional<io::JsonValue>& ids, int64_t count) {
  if (!ids || ids->size() == 0 || (count > 0 && count != ids->size())) return {};
  std::vector<std::string> names(static_cast<size_t>(ids->size()));
  for (const std::string& label : ids->keys()) {
    const int64_t id = ids->at(label).as_int();
    if (id >= ids->size() || label.empty() || !names[static_cast<size_t>(id)].empty()) return {};
    names[static_cast<size_t>(id)] = label;
  }
  return names;
}

}  // namespace

void ConfigReader::read_labels(int64_t& num_labels, std::vector<std::string>& labels) {
  const auto count = find("num_labels");
  if (count) num_labels = count->as_int(1, kMaxLabels);
  const auto names = find("id2label");
  std::set<std::string> seen;
  labels.clear();
  if (!names) {
    check_ids_of_labels({}, seen);
    labels = names_by_id(find("label2id"), count ? num_labels : 0);
    if (!labels.empty()) num_labels = std::ssize(labels);
    return;
  }
  const int64_t size = names->size();
  for (int64_t id = 0; id < size; ++id) {
    const auto name = names->find_or_null(std::to_string(id));
    if (name && name->is_null()) name->fail("is null", "give every label a name");
    if (!name) {
      names->fail("has " + std::to_string(size) + " labels but none for id " + std::to_string(id),
                  "ids are counted from 0 without gaps");
    }
    // Some files name classes by numbers. A name may be that of several: their ids tell them apart.
    labels.push_back(name->is_number() ? name->dump() : name->as_string());
    if (labels.back().empty()) name->fail("is empty", "give every label a name");
    seen.insert(labels.back());
  }
  if (labels.empty()) names->fail("is empty");
  if (count && num_labels != size) {
    count->fail("is " + std::to_string(num_labels) + ", but id2label has " + std::to_string(size) +
                " labels");
  }
  num_labels = size;
  check_ids_of_labels(labels, seen);
}

void ConfigReader::check_ids_of_labels(const std::vector<std::string>& labels,
                                       const std::set<std::string>& names) {
  const auto ids = find("label2id");
  if (!ids) return;
  if (!ids->is_object()) ids->fail("must be an object of labels and their ids");
  for (const std::string& label : ids->keys()) {
    const io::JsonValue field = ids->at(label);
    const int64_t id = field.as_int(0, kMaxLabels);
    const bool is_known = id < std::ssize(labels);
    if (labels.empty() || (is_known && labels[static_cast<size_t>(id)] == label)) continue;
    // transformers leaves its own names there where only id2label was set.
    if (label == "LABEL_" + std::to_string(id) && names.count(label) == 0) continue;
    field.fail("is " + std::to_string(id) + ", which id2label " +
                   (is_known ? "calls " + io::quote_json(labels[static_cast<size_t>(id)])
                             : "does not have"),
               "make label2id and id2label agree, or remove label2id");
  }
}

std::string ConfigReader::read_class() {
  const auto names = find("architectures");
  const std::vector<std::string> classes = names ? names->as_strings() : std::vector<std::string>();
  return classes.empty() ? std::string() : classes.front();
}

void ConfigReader::read_head(Head& head, int64_t num_labels) {
  const std::string name = read_class();
  if (name.ends_with("ForTokenClassification")) head.kind = HeadKind::token;
  if (const auto field = find("problem_type")) {
    head.problem_type = field->as_string();
    constexpr std::string_view kTypes[] = {"single_label_classification", "regression",
                                           "multi_label_classification"};
    if (std::find(std::begin(kTypes), std::end(kTypes), head.problem_type) == std::end(kTypes)) {
      field->fail("is \"" + head.problem_type + "\", which is not supported",
                  "single_label_classification, multi_label_classification or regression");
    }
  } else if (num_labels == 1) {
    head.problem_type = "regression";  // as every head of rows in transformers
    head.is_implied = true;
  }
  if (head.kind == HeadKind::token) {  // it says nothing of tokens
    head.problem_type.clear();
    head.is_implied = false;
  }
  if (const auto field = find(kSnugTask)) {
    for (const std::string& key : field->keys())
      head.settings[key] = field->find_or_null(key)->as_string();
  }
}

std::vector<std::string> ConfigReader::unknown() const {
  std::vector<std::string> names;
  for (const std::string& key : root_.keys()) {
    if (known_.count(key) == 0) names.push_back(key);
  }
  return names;
}

void check_sizes(std::initializer_list<std::pair<const char*, int64_t>> sizes,
                 const std::string& where) {
  for (const auto& [name, size] : sizes) {
    if (size < 1) {
      throw Error(ErrorCode::bad_config, where,
                  std::string(name) + " must be at least 1, found " + std::to_string(size));
    }
  }
}

void check_rates(std::initializer_list<double> rates, const std::string& where) {
  for (const double rate : rates) {
    if (!(rate >= 0 && rate < 1))
      throw Error(ErrorCode::bad_config, where, "a dropout rate must be at least 0 and below 1");
  }
}

void check_depth(const char* name, const std::vector<int64_t>& layers, const std::string& where) {
  int64_t sum = 0;
  for (const int64_t each : layers) {
    if (each <= kMaxLayers && (sum += each) <= kMaxLayers) continue;
    throw Error(ErrorCode::bad_config, where,
                std::string(name) + " asks for " + (layers.size() > 1 ? "at least " : "") +
                    std::to_string(std::max(sum, each)) + " layers or blocks, more than the " +
                    std::to_string(kMaxLayers) + " that a model may have",
                "use a model of fewer layers");
  }
}

void check_pad_token(int64_t pad_token_id, int64_t vocab_size, const std::string& where) {
  if (pad_token_id < vocab_size) return;
  throw Error(ErrorCode::bad_config, where,
              "pad_token_id " + std::to_string(pad_token_id) + " is no token of a vocabulary of " +
                  std::to_string(vocab_size));
}

void check_labels(int64_t num_labels, const std::vector<std::string>& labels,
                  const std::string& where) {
  if (labels.empty() || static_cast<int64_t>(labels.size()) == num_labels) return;
  throw Error(ErrorCode::bad_config, where,
              "num_labels is " + std::to_string(num_labels) + ", but there are " +
                  std::to_string(labels.size()) + " label names");
}

void append_head(nlohmann::ordered_json& json, const Head& head) {
  if (!head.problem_type.empty()) json["problem_type"] = head.problem_type;
  if (!head.settings.empty()) json[kSnugTask] = head.settings;
}

void append_labels(nlohmann::ordered_json& json, const std::vector<std::string>& labels,
                   int64_t num_labels) {
  // Appended, not assigned by key: an ordered object searches all of its keys.
  nlohmann::ordered_json::object_t names;
  nlohmann::ordered_json::object_t ids;
  std::unordered_map<std::string, size_t> place_of;
  for (int64_t id = 0; id < num_labels; ++id) {
    const std::string number = std::to_string(id);
    const std::string name = labels.empty() ? "LABEL_" + number : labels[static_cast<size_t>(id)];
    names.push_back({number, name});
    // Where several ids have one name, the last counts, as in a dict.
    const auto [place, is_new] = place_of.emplace(name, ids.size());
    if (is_new) {
      ids.push_back({name, id});
    } else {
      std::next(ids.begin(), static_cast<std::ptrdiff_t>(place->second))->second = id;
    }
  }
  json["id2label"] = std::move(names);
  json["label2id"] = std::move(ids);
}

}  // namespace snug::models
