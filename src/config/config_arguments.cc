// SPDX-License-Identifier: Apache-2.0
// Command-line words into configuration keys and the rest.
#include <string>

#include "base/units.h"
#include "config/option.h"
#include "config/training_arguments.h"
#include "snug/config.h"

namespace snug {
namespace {

// "-512MiB" is a value; "--seed" is the next option.
bool is_value(const std::string& word) { return !word.starts_with("--"); }

bool is_truth_word(const std::string& word) {
  for (const char* each : {"true", "True", "TRUE", "yes", "on", "1", "false", "False", "FALSE",
                           "no", "off", "0", "auto"}) {
    if (word == each) return true;
  }
  return false;
}

/// What the words of a line need to know of a name.
struct Name {
  bool is_known = false;
  bool is_switch = false;
  bool is_memory = false;
};

Name find_name(const std::string& key) {
  if (key.empty()) return {};
  if (const config::Option* option = config::find_option(key))
    return {true, option->info.is_switch, option->info.type == spec::kMemoryType};
  const config::TrainingArgument* field = config::find_training_argument(key);
  return {field != nullptr, field != nullptr && field->is_switch, false};
}

}  // namespace

ConfigArguments split_config_arguments(std::span<const std::string> words) {
  ConfigArguments split;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {  // everything behind it belongs to the program
      split.rest.insert(split.rest.end(), words.begin() + static_cast<std::ptrdiff_t>(i),
                        words.end());
      break;
    }
    const size_t equals = word.find('=');
    const std::string key =
        word.starts_with("--")
            ? config::normal_key(word.substr(2, equals == std::string::npos ? equals : equals - 2))
            : std::string();
    const Name name = find_name(key);
    if (!name.is_known) {
      split.rest.push_back(word);
      continue;
    }
    std::optional<std::string> value;
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (i + 1 < words.size() &&
               (name.is_switch ? is_truth_word(words[i + 1]) : is_value(words[i + 1]))) {
      value = words[++i];
      // "61.3 MiB", as amounts are printed.
      if (name.is_memory && i + 1 < words.size() && is_byte_unit(words[i + 1]))
        *value += " " + words[++i];
    }
    split.overrides.emplace_back(key, std::move(value));
  }
  return split;
}

}  // namespace snug
