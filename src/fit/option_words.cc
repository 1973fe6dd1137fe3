// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "fit/request.h"

namespace snug::train {

std::string option_words(OptionWords words, const std::string& key, const std::string& value) {
  if (words == OptionWords::command_line) return "--" + key + (value.empty() ? "" : " " + value);
  static const std::map<std::string, std::string> fields = {
      {"train_batch_size", "batch_rows"},
      {"max_seq_length", "lengths.back()"},
      {"allow_batch_norm_split", "allow_coupled_split"}};
  const auto named = fields.find(key);
  const std::string field = named == fields.end() ? key : named->second;
  if (value.empty()) return field + " = true";
  if (value == "auto") return field + (key == "recompute" ? " = \"auto\"" : " = 0");
  return field + " = " + value;
}

std::string length_words(OptionWords words, const std::string& name, int64_t length) {
  if (name.empty()) return option_words(words, "max_seq_length", std::to_string(length));
  return "lengths.back().set(\"" + name + "\", " + std::to_string(length) + ")";
}

}  // namespace snug::train
