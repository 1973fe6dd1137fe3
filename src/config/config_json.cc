// SPDX-License-Identifier: Apache-2.0
// The configuration inside a checkpoint: one JSON object with every key.
#include <string>
#include <utility>
#include <vector>

#include "base/numbers.h"
#include "config/option.h"
#include "io/json_file.h"
#include "io/json_tree.h"
#include "snug/config.h"
#include "snug/error.h"

namespace snug::config {

using spec::ValueForm;

std::optional<std::string> items_text(ValueForm form, const std::string& text) {
  if (form == ValueForm::number_list || form == ValueForm::text_list) {
    std::vector<std::string> items =
        text.empty() ? std::vector<std::string>() : spec::split_list(text);
    if (form == ValueForm::text_list) {
      for (std::string& item : items) item = io::quote_json(item);
    }
    return "[" + spec::join(items, ", ") + "]";
  }
  if (form == ValueForm::object_list) return text.empty() ? "[]" : text;
  if (form == ValueForm::object) return text.empty() ? "{}" : text;
  return {};
}

}  // namespace snug::config

namespace snug {
namespace {

using spec::ValueForm;

std::string json_value(const config::Option& option, const std::string& text) {
  if (const auto items = config::items_text(option.form, text)) return *items;
  // A number may be a word: auto, epoch, end.
  const bool is_word = option.form == ValueForm::number && !number_in<double>(text);
  if (option.form == ValueForm::text || text == "auto" || is_word) return io::quote_json(text);
  return text;
}

std::string value_text(const io::JsonValue& value, const config::Option* option) {
  if (value.is_string()) return value.as_string();
  if (value.is_bool()) return value.as_bool() ? "true" : "false";
  if (value.is_number()) return value.dump();
  if (value.is_object() && option != nullptr && option->form == ValueForm::object)
    return value.dump();
  if (!value.is_array())
    value.fail("must be a plain value or a list", "this file was not written by Snug");
  if (value.size() > 0 && value.at(0).is_object()) return value.dump();
  std::vector<std::string> items;
  for (int64_t i = 0; i < value.size(); ++i) {
    const io::JsonValue item = value.at(i);
    items.push_back(item.is_number() ? item.dump() : item.as_string());
  }
  return spec::join(items, ",");
}

}  // namespace

std::string RunConfig::to_json() const {
  std::string text = "{";
  for (const config::Option& option : config::option_table()) {
    text += (text.size() > 1 ? ",\n  " : "\n  ") + io::quote_json(option.info.name) + ": " +
            json_value(option, option.get(*this));
  }
  return text + "\n}\n";
}

RunConfig RunConfig::from_json(std::string_view json, const std::string& name) {
  const io::JsonValue root = io::parse_json(json, name);
  RunConfig config;
  for (const std::string& key : root.keys()) {
    config::set_option(config, key, value_text(root.at(key), config::find_option(key)),
                       ConfigSource::file, name);
  }
  config.validate();
  return config;
}

std::string config_options_json() {
  const auto list = [](const std::vector<std::string>& items) {
    std::string text;
    for (const std::string& item : items) text += (text.empty() ? "" : ",") + io::quote_json(item);
    return "[" + text + "]";
  };
  std::string text;
  for (const OptionInfo& option : config_options()) {
    text += text.empty() ? "\n  {" : ",\n  {";
    for (const auto& [key, value] :
         {std::pair<const char*, const std::string&>{"name", option.name},
          {"type", option.type},
          {"default", option.default_value},
          {"unit", option.unit},
          {"range", option.range},
          {"group", option.group},
          {"help", option.help}}) {
      text += "\"" + std::string(key) + "\":" + io::quote_json(value) + ",";
    }
    text += "\"allowed\":" + list(option.allowed) + ",\"names\":" + list(option.names) +
            ",\"is_switch\":" + (option.is_switch ? "true}" : "false}");
  }
  return "{\"options\":[" + text + "\n]}";
}

}  // namespace snug
