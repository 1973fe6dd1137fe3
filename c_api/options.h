// SPDX-License-Identifier: Apache-2.0
// Options of a call in C: those of the verb, with a dot in front, and keys.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "answer.h"
#include "snug/config.h"
#include "snug/session.h"
#include "snug/snug_c.h"

namespace snug::c_api {

class Options {
 public:
  /// Throws Error{bad_config} for an option without a name or a value, and for one given twice.
  Options(const snug_option* options, size_t count);

  /// An option of the verb; empty where it is not given.
  [[nodiscard]] std::string option(const std::string& name);
  /// Throws Error{bad_config} where it is not given.
  [[nodiscard]] std::string required(const std::string& name);
  [[nodiscard]] bool flag(const std::string& name);
  /// Those without a dot.
  [[nodiscard]] const ConfigOverrides& keys() const { return keys_; }
  /// Throws Error{bad_config} where an option was given that nobody has asked for.
  void check_options() const;
  /// For verbs that take no keys, either.
  void check_all() const;

 private:
  std::map<std::string, std::string> options_;  // without the dot
  std::set<std::string> asked_;
  ConfigOverrides keys_;
};

// Texts as values; each throws Error{bad_config} that names the option.
[[nodiscard]] int64_t whole_number(const std::string& name, const std::string& text);
[[nodiscard]] double real_number(const std::string& name, const std::string& text);
[[nodiscard]] bool truth(const std::string& name, const std::string& text);
[[nodiscard]] Json parsed(const std::string& name, std::string_view text);
/// 12, or {"source": 12, "target": 20}.
[[nodiscard]] Lengths lengths_of(const std::string& name, const Json& json);
[[nodiscard]] Json json_of(const Lengths& lengths);

/// The keys as fields of SessionOptions. Throws Error{bad_config} for a name that is none.
[[nodiscard]] SessionOptions session_options(const Options& options);

}  // namespace snug::c_api
