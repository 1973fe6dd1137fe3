// SPDX-License-Identifier: Apache-2.0
// Setting, reading and checking values. Files: config_yaml.cc, config_json.cc; command line:
// config_arguments.cc.
#include "snug/config.h"

#include <algorithm>
#include <utility>

#include "config/foreign_keys.h"
#include "config/option.h"
#include "config/training_arguments.h"
#include "io/nearest.h"
#include "snug/error.h"
#include "tasks/registry.h"

namespace snug {
namespace config {
std::string normal_key(std::string_view key) {
  std::string name(key);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

void set_option(RunConfig& config, std::string_view key, std::optional<std::string_view> value,
                ConfigSource source, const std::string& where) {
  const std::string name = normal_key(key);
  const Option* option = find_option(name);
  if (option == nullptr) throw_unknown_option(key, where);
  const auto fail = [&](const std::string& message, std::string hint) {
    throw Error(ErrorCode::bad_config, where, name + ": " + message, std::move(hint));
  };
  const std::string allowed =
      option->info.range.empty() ? std::string() : "allowed: " + option->info.range;
  if (!value && !option->info.is_switch) fail("a value is missing", allowed);
  const std::string_view text = value ? *value : "true";
  if (text.empty() && !option->may_be_empty) fail("the value is empty", allowed);
  try {
    option->set(config, text);
  } catch (const spec::BadValue& bad) {
    fail(bad.what(), bad.hint.empty() ? allowed : bad.hint);
  }
  config.sources[name] = source;
}

}  // namespace config

std::string_view to_string(ConfigSource source) {
  switch (source) {
    case ConfigSource::default_value:
      return "default";
    case ConfigSource::environment:
      return "environment";
    case ConfigSource::file:
      return "file";
    case ConfigSource::command_line:
      return "command line";
  }
  return "default";
}

void throw_unknown_option(std::string_view word, const std::string& where) {
  std::string_view key = word;
  while (key.starts_with('-')) key.remove_prefix(1);
  key = key.substr(0, key.find('='));
  const std::string name = config::normal_key(key);
  std::string hint(config::foreign_key_advice(name));
  if (const config::TrainingArgument* field = config::find_training_argument(name)) {
    hint = field->otherwise.empty() ? "omit it" : field->otherwise;
  } else if (name.starts_with("no_") && config::find_training_argument(name.substr(3)) != nullptr) {
    hint = "give " + name.substr(3) + ": false";
  } else if (hint.empty()) {
    const std::string nearest = nearest_config_key(name);
    hint = nearest.empty() ? "the keys are in docs/configuration.md"
                           : "did you mean '" + nearest + "'?";
  }
  throw Error(ErrorCode::bad_config, where.empty() ? std::string(word) : where,
              "unknown key '" + std::string(key) + "'", hint);
}

std::string nearest_config_key(std::string_view key) {
  std::vector<std::string> names;
  for (const config::Option& option : config::option_table()) names.push_back(option.info.name);
  return io::nearest_name(config::normal_key(key), names);
}

void RunConfig::set(std::string_view key, std::optional<std::string_view> value,
                    ConfigSource source) {
  config::set_option(*this, key, value, source, "--" + std::string(key));
}

std::string RunConfig::get(std::string_view key) const {
  const config::Option* option = config::find_option(config::normal_key(key));
  if (option == nullptr) throw_unknown_option(key);
  return option->get(*this);
}

ConfigSource RunConfig::source_of(std::string_view key) const {
  const auto found = sources.find(config::normal_key(key));
  return found == sources.end() ? ConfigSource::default_value : found->second;
}

bool RunConfig::is_greater_better() const {
  return greater_is_better.value_or(tasks::is_greater_better(metric_for_best_model));
}

void RunConfig::validate() const {
  const auto fail = [](const char* key, const std::string& message, const std::string& hint) {
    throw Error(ErrorCode::bad_config, key, message, hint);
  };
  if (micro_batch_size > train_batch_size) {
    fail("micro_batch_size",
         "micro_batch_size " + std::to_string(micro_batch_size) +
             " is larger than train_batch_size " + std::to_string(train_batch_size),
         "train_batch_size is the global batch; give micro_batch_size: auto or at most that");
  }
  if (lora.is_on() && !lora_adapter.empty())
    fail("lora", "the adapters of " + lora_adapter + " say their rank, alpha and maps themselves",
         "give lora for fresh adapters, or lora_adapter to begin with those");
  if (label_smoothing_factor > 0 && (focal_gamma > 0 || !class_weights.empty())) {
    fail("label_smoothing_factor",
         std::string("it is not defined beside ") +
             (focal_gamma > 0 ? "focal_gamma" : "class_weights"),
         "give one of the two");
  }
  std::vector<std::string> ordered = label_order;
  std::sort(ordered.begin(), ordered.end());
  if (const auto twice = std::adjacent_find(ordered.begin(), ordered.end()); twice != ordered.end())
    fail("label_order", "'" + *twice + "' is given twice", "give every label once");
  if (stratify && (!validation_file.empty() || validation_split == 0))
    fail("stratify",
         validation_file.empty()
             ? "validation_split is 0: no rows are held out"
             : "rows for evaluation come from validation_file: none are held out",
         "omit stratify, or hold out a share with validation_split only");
  if (stride > 0 && overlong != "window")
    fail("stride", "there are no windows that could share tokens",
         "set overlong to window, or omit stride");
  if (overlong == "window" && !text_pair_column.empty())
    fail("overlong", "windows of pairs are not defined: which of the two texts would move?",
         "take truncate, tail or head_tail, or omit text_pair_column");
  if (overlong == "window" && !train_file.empty() && validation_file.empty() &&
      validation_split > 0) {
    fail("overlong", "validation_split would put windows of one text on both sides",
         "give validation_file, or set validation_split to 0");
  }
  if (max_steps == 0)
    fail("max_steps", "max_steps 0 would train nothing",
         "give a number above 0, or -1 to train by epochs");
  if (greater_is_better && *greater_is_better != tasks::is_greater_better(metric_for_best_model)) {
    fail("greater_is_better",
         "greater_is_better " + get("greater_is_better") + " contradicts metric_for_best_model " +
             get("metric_for_best_model"),
         "leave greater_is_better out");
  }
}

void RunConfig::require(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    if (!get(key).empty()) continue;
    const std::string name(key);
    throw Error(
        ErrorCode::bad_config, name, name + " is needed here and was not given",
        "give --" + name + " VALUE, or write '" + name + ": VALUE' in the run configuration");
  }
}

bool RunConfig::operator==(const RunConfig& other) const {
  return std::all_of(
      config::option_table().begin(), config::option_table().end(),
      [&](const config::Option& option) { return option.get(*this) == option.get(other); });
}

std::vector<OptionInfo> config_options() {
  std::vector<OptionInfo> infos;
  for (const config::Option& option : config::option_table()) infos.push_back(option.info);
  return infos;
}

}  // namespace snug
