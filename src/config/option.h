// SPDX-License-Identifier: Apache-2.0
// One option of the run configuration: what it is (OptionInfo) and how its field is read and
// written as text. Values have three text forms that all go through `set` and `get`: command line,
// YAML, JSON.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "snug/config.h"

namespace snug::config {

/// Why a text is no value of an option; the caller adds the key and the place.
struct BadValue : std::runtime_error {
  explicit BadValue(const std::string& message, std::string fix = {})
      : std::runtime_error(message), hint(std::move(fix)) {}
  std::string hint;
};

/// How a value stands in JSON and YAML.
enum class ValueForm : uint8_t {
  number,
  boolean,
  text,
  number_list,
  text_list,
  object,
  object_list
};

/// OptionInfo::type of amounts of memory.
inline constexpr std::string_view kMemoryType = "memory";

struct Option {
  OptionInfo info;
  ValueForm form = ValueForm::text;
  bool may_be_empty = false;
  std::function<void(RunConfig&, std::string_view)> set;
  std::function<std::string(const RunConfig&)> get;
};

/// Every option in the order of declaration.
[[nodiscard]] const std::vector<Option>& option_table();
/// Null if there is none; the name must be spelt with underscores.
[[nodiscard]] const Option* find_option(std::string_view name);
/// Hyphens become underscores.
[[nodiscard]] std::string normal_key(std::string_view key);
/// Sets one value; `where` is the place for errors, e.g. "run.yaml:3" or "--seed".
void set_option(RunConfig& config, std::string_view key, std::optional<std::string_view> value,
                ConfigSource source, const std::string& where);

[[nodiscard]] std::vector<std::string> split_list(std::string_view text);
[[nodiscard]] std::string join(const std::vector<std::string>& items, std::string_view separator);

}  // namespace snug::config
