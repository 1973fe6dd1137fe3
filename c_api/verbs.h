// SPDX-License-Identifier: Apache-2.0
// The verbs behind snug_call: options in, JSON out. Public headers alone, as the program.
#pragma once

#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "snug/snug.h"
#include "snug/snug_c.h"

namespace snug::c_api {

/// Text of other people's files may not be UTF-8.
[[nodiscard]] inline std::string dumped(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// One call: its options, and the way back to the caller while it runs.
class Call {
 public:
  /// Throws Error{bad_config} for an option without a name or a value, and for one given twice.
  Call(const snug_option* options, size_t count, snug_event event, void* context);

  /// An option of the verb; empty where it is not given.
  [[nodiscard]] std::string option(const std::string& name);
  [[nodiscard]] bool flag(const std::string& name);
  /// The run configuration: a file or a text, and keys. The caller is told its notices.
  [[nodiscard]] RunConfig config();
  /// Callbacks that tell the caller, the flag that it sets by its answers.
  [[nodiscard]] RunOptions run_options();
  /// Throws Error{bad_config} where an option was given that nobody has asked for.
  void check_options() const;

  void tell(const char* kind, const std::string& json);
  [[nodiscard]] const std::atomic<bool>* stop() const { return &stop_; }

 private:
  std::map<std::string, std::string> options_;  // of the verb, without the dot
  std::set<std::string> asked_;
  ConfigOverrides keys_;
  snug_event event_;
  void* context_;
  std::atomic<bool> stop_ = false;
};

/// The verb's result as JSON text. Throws Error.
[[nodiscard]] std::string run_verb(const std::string& verb, Call& call);

}  // namespace snug::c_api
