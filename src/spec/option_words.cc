// SPDX-License-Identifier: Apache-2.0
#include "spec/option_words.h"

#include "spec/table.h"

namespace snug::spec {

std::string option_words(OptionWords words, const std::string& key, const std::string& value) {
  if (words == OptionWords::command_line) return "--" + key + (value.empty() ? "" : " " + value);
  const Field* known = find_key(key);
  const std::string field = key == "max_seq_length" ? "lengths.back()"
                            : known == nullptr      ? key
                                                    : known->name;
  if (value.empty()) return field + " = true";
  if (value == "auto" && key == "recompute") return field + " = \"auto\"";
  return field + " = " + field_value(key, value);
}

std::string field_value(const std::string& key, const std::string& value) {
  return value == "auto" && key != "recompute" ? "0" : value;
}

std::string length_words(OptionWords words, const std::string& name, int64_t length) {
  if (name.empty()) return option_words(words, "max_seq_length", std::to_string(length));
  return "lengths.back().set(\"" + name + "\", " + std::to_string(length) + ")";
}

}  // namespace snug::spec
