// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <charconv>
#include <string>
#include <system_error>

namespace snug::c_api {
namespace {

[[noreturn]] void refuse_option(const std::string& name, const std::string& what,
                                const std::string& hint = {}) {
  throw Error(ErrorCode::bad_config, name, what, hint);
}

}  // namespace

Options::Options(const snug_option* options, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (options[i].name == nullptr || options[i].value == nullptr)
      refuse_option("option " + std::to_string(i), "has no name or no value");
    const std::string name = options[i].name;
    if (!name.starts_with("."))
      keys_.emplace_back(name, options[i].value);
    else if (!options_.emplace(name.substr(1), options[i].value).second)
      refuse_option(name.substr(1), "is given twice");
  }
}

std::string Options::option(const std::string& name) {
  asked_.insert(name);
  const auto found = options_.find(name);
  return found == options_.end() ? std::string() : found->second;
}

std::string Options::required(const std::string& name) {
  std::string value = option(name);
  if (value.empty()) refuse_option(name, "is missing");
  return value;
}

bool Options::flag(const std::string& name) {
  const std::string value = option(name);
  return !value.empty() && truth(name, value);
}

void Options::check_options() const {
  for (const auto& [name, value] : options_) {
    if (asked_.count(name) == 0) refuse_option(name, "this verb has no such option");
  }
}

void Options::check_all() const {
  check_options();
  if (!keys_.empty()) refuse_option(keys_.front().first, "this verb has no such option");
}

int64_t whole_number(const std::string& name, const std::string& text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end)
    refuse_option(name, "\"" + text + "\" is no whole number");
  return value;
}

double real_number(const std::string& name, const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) refuse_option(name, "\"" + text + "\" is no number");
  return value;
}

bool truth(const std::string& name, const std::string& text) {
  if (text != "true" && text != "false")
    refuse_option(name, "\"" + text + "\" is neither true nor false");
  return text == "true";
}

Json parsed(const std::string& name, std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) refuse_option(name, "\"" + std::string(text) + "\" is no JSON");
  return json;
}

Lengths lengths_of(const std::string& name, const Json& json) {
  const auto length = [&](const Json& value) {
    if (!value.is_number_integer() || value.get<int64_t>() < 1)
      refuse_option(name, dumped(value) + " is no length", "give a whole number of 1 or more");
    return value.get<int64_t>();
  };
  if (!json.is_object()) return {length(json)};
  Lengths lengths;
  for (const auto& [each, value] : json.items()) lengths.set(each, length(value));
  return lengths;
}

Json json_of(const Lengths& lengths) {
  if (!lengths.has_names()) return lengths.of();
  Json json = Json::object();
  for (const auto& [name, length] : lengths.by_name()) json[name] = length;
  return json;
}

}  // namespace snug::c_api
