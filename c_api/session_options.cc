// SPDX-License-Identifier: Apache-2.0
// SessionOptions from texts. What the run configuration reads in a form of its own (memory, lora,
// param_groups, ...) is read there.
#include <string>
#include <type_traits>
#include <vector>

#include "options.h"

namespace snug::c_api {
namespace {

void read(const std::string& name, const std::string& text, int64_t& value) {
  value = whole_number(name, text);
}
void read(const std::string& name, const std::string& text, double& value) {
  value = real_number(name, text);
}
void read(const std::string& name, const std::string& text, bool& value) {
  value = truth(name, text);
}
void read(const std::string& /*name*/, const std::string& text, std::string& value) {
  value = text;
}
void read(const std::string& name, const std::string& text, std::vector<Lengths>& value) {
  const Json json = parsed(name, text);
  if (!json.is_array())
    throw Error(ErrorCode::bad_config, name, text + " is no list of lengths",
                "give one for each program: [32, 64]");
  for (const Json& each : json) value.push_back(lengths_of(name, each));
}
void read(const std::string& name, const std::string& text, NamedNumbers& value) {
  const Json json = parsed(name, text);
  if (!json.is_object())
    throw Error(ErrorCode::bad_config, name, text + " has no names", "give numbers by name");
  for (const auto& [each, number] : json.items()) {
    if (!number.is_number())
      throw Error(ErrorCode::bad_config, name, "'" + each + "' is no number");
    value[each] = number.get<double>();
  }
}
void read(const std::string& name, const std::string& text, DrawNumbering& value) {
  if (text != "operands" && text != "building")
    throw Error(ErrorCode::bad_config, name, "there is no numbering '" + text + "'",
                "give operands or building");
  value = text == "operands" ? DrawNumbering::operands : DrawNumbering::building;
}

// Plain values stand as they are in SessionOptions, which checks them.
template <class Value>
constexpr bool kIsPlain = std::is_same_v<Value, int64_t> || std::is_same_v<Value, double> ||
                          std::is_same_v<Value, bool> || std::is_same_v<Value, std::string>;

struct Field {
  const char* name;
  void (*set)(SessionOptions& options, const std::string& text);
};

template <class Value>
void set_key(const char* name, const char* key, const std::string& text, Value& value,
             Value RunConfig::*field) {
  if constexpr (kIsPlain<Value>) {
    read(name, text, value);
    return;
  }
  RunConfig config;
  try {
    config.set(key, text);
  } catch (const Error& error) {
    throw Error(error.code(), name, error.message(), error.hint());
  }
  value = config.*field;
}

const Field kFields[] = {
#define SNUG_TRAIN_FIELD(type, name, ...) \
  {#name,                                 \
   [](SessionOptions& options, const std::string& text) { read(#name, text, options.name); }},
#define SNUG_TRAIN_KEY(type, name, value, key, ...)                   \
  {#name, [](SessionOptions& options, const std::string& text) {      \
     set_key<type>(#name, #key, text, options.name, &RunConfig::key); \
   }},
#include "snug/train_fields.inc"
    {"plan_file", [](SessionOptions& o, const std::string& text) { o.plan_file = text; }},
    {"profile_folder", [](SessionOptions& o, const std::string& text) { o.profile_folder = text; }},
    {"repeats_own_ops",
     [](SessionOptions& o, const std::string& text) {
       o.repeats_own_ops = truth("repeats_own_ops", text);
     }},
};

}  // namespace

SessionOptions session_options(const Options& options) {
  SessionOptions found;
  for (const auto& [name, value] : options.keys()) {
    const Field* field = nullptr;
    for (const Field& each : kFields) {
      if (name == each.name) field = &each;
    }
    if (field == nullptr) {
      std::string known;
      for (const Field& each : kFields)
        known += (known.empty() ? "" : ", ") + std::string(each.name);
      throw Error(ErrorCode::bad_config, name, "a session has no such option",
                  "there are: " + known);
    }
    field->set(found, value.value_or("true"));
  }
  return found;
}

}  // namespace snug::c_api
