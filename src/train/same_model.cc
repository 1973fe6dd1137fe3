// SPDX-License-Identifier: Apache-2.0
#include "train/same_model.h"

#include <set>

#include "base/numbers.h"
#include "base/utf8.h"
#include "io/file.h"
#include "io/json_file.h"
#include "models/model.h"
#include "models/registry.h"
#include "run_model/adapter_config.h"
#include "snug/error.h"

namespace snug::train {
namespace {

constexpr int64_t kMaxConfigBytes = 16 << 20;
constexpr size_t kMostValueBytes = 80;  // of a value in an error's text

[[noreturn]] void refuse(const std::string& where, const std::string& field,
                         const std::string& value, const std::string& file,
                         const std::string& value_before) {
  throw Error(ErrorCode::bad_config, where,
              "the network changed since the run began: \"" + field + "\" is " +
                  clip_text(value, kMostValueBytes) + ", and " + file + " says " +
                  clip_text(value_before, kMostValueBytes),
              "put the file back as it was, or train into another output_dir");
}

std::string text_of(const std::optional<io::JsonValue>& value) {
  return value ? value->dump() : "absent";
}

/// What both have, and what one has, by name.
std::set<std::string> keys_of_both(const io::JsonValue& a, const io::JsonValue& b) {
  std::set<std::string> keys;
  for (const io::JsonValue& each : {a, b}) {
    for (const std::string& key : each.keys()) keys.insert(key);
  }
  return keys;
}

/// What the task keeps of keys that the user gives another value now is no edit of the file.
bool is_changed_key(const std::string& key, const RunConfig& before, const RunConfig& now) {
  for (const OptionInfo& option : config_options()) {
    if (option.name == key)
      return option.resume_rule == ResumeRule::may_change && before.get(key) != now.get(key);
  }
  return false;
}

void compare_settings(const io::JsonValue& is, const io::JsonValue& was, const std::string& where,
                      const std::string& file, const RunConfig& before, const RunConfig& now) {
  const io::JsonValue none = io::parse_json("{}", where);
  const io::JsonValue own = is.find(models::kSnugTask).value_or(none);
  const io::JsonValue others = was.find(models::kSnugTask).value_or(none);
  for (const std::string& key : keys_of_both(own, others)) {
    const std::string value = text_of(own.find_or_null(key));
    const std::string value_before = text_of(others.find_or_null(key));
    if (value != value_before && !is_changed_key(key, before, now))
      refuse(where, std::string(models::kSnugTask) + "." + key, value, file, value_before);
  }
}

void compare_adapters(const run_model::Model& model, const std::string& checkpoint) {
  const LoraOptions was = run_model::read_adapter_config(checkpoint).lora;
  const LoraOptions& is = model.lora;
  const std::string folder = model.adapter_folder;
  const std::string where = folder.empty() ? "lora" : folder + "/" + run_model::kAdapterConfig;
  const std::string file = checkpoint + "/" + run_model::kAdapterConfig;
  const auto compare = [&](const char* field, double value, double value_before) {
    if (value == value_before) return;
    refuse(where, field, number_text(value), file, number_text(value_before));
  };
  compare("r", static_cast<double>(is.r), static_cast<double>(was.r));
  compare("lora_alpha", is.alpha, was.alpha);
  compare("lora_dropout", is.dropout, was.dropout);
  compare("use_rslora", is.use_rslora ? 1 : 0, was.use_rslora ? 1 : 0);
}

}  // namespace

void require_same_model(const run_model::Model& model, const std::string& checkpoint,
                        const RunConfig& before, const RunConfig& now) {
  const std::string file = model.lora.is_on() ? run_model::adapted_model_config(checkpoint)
                                              : checkpoint + "/config.json";
  const std::string where = model.config_file.empty() ? "model" : model.config_file;
  const std::string text = io::read_all(file, kMaxConfigBytes);
  const std::string type = io::parse_json(text, file).get_string("model_type", "");
  const std::string own_text = model.config_json();
  const io::JsonValue is = io::parse_json(own_text, where);
  if (models::family_of_type(type) != &model.family())
    refuse(where, "model_type", is.at("model_type").dump(), file, "\"" + type + "\"");
  // Written anew, so that fields which older versions did not write are there with their defaults.
  const io::JsonValue was =
      io::parse_json(model.family().read(text, file, nullptr)->config_json(), file);
  for (const std::string& key : keys_of_both(is, was)) {
    if (key == models::kSnugTask) continue;
    const std::string value = text_of(is.find_or_null(key));
    const std::string value_before = text_of(was.find_or_null(key));
    if (value != value_before) refuse(where, key, value, file, value_before);
  }
  compare_settings(is, was, where, file, before, now);
  if (model.lora.is_on()) compare_adapters(model, checkpoint);
}

}  // namespace snug::train
