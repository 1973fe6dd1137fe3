// SPDX-License-Identifier: Apache-2.0
// One option of the run configuration: what it is (OptionInfo) and how its field is read and
// written as text. Values have three text forms that all go through `set` and `get`: command line,
// YAML, JSON.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "snug/config.h"
#include "spec/kinds.h"

namespace snug::config {

struct Option {
  OptionInfo info;
  spec::ValueForm form = spec::ValueForm::text;
  bool may_be_empty = false;
  bool takes_list = false;  // of text: a list in YAML is its elements with commas between them
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

/// How JSON and YAML write the value of a list or an object: [1, 2], ["a", "b"], {}; nothing of
/// other forms. In config_json.cc.
[[nodiscard]] std::optional<std::string> items_text(spec::ValueForm form, const std::string& text);

}  // namespace snug::config
