// SPDX-License-Identifier: Apache-2.0
// The one exception type of the library. Every failure a caller can see is a snug::Error with a
// code, the place where it happened and, where one is known, the cheapest fix.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace snug {

enum class ErrorCode {
  ok,
  invalid_graph,
  shape_mismatch,
  unsupported,
  out_of_budget,
  bad_config,
  bad_data,
  io,
  device,
  numeric,
  cancelled,
  internal,
};

/// Returns the name of a code, e.g. "out_of_budget".
[[nodiscard]] std::string_view to_string(ErrorCode code);

/// Reads "[where] message" from what(), with a second line "hint: ..." where a fix is known.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string where, const std::string& message, std::string hint = {});

  [[nodiscard]] ErrorCode code() const { return code_; }
  /// The place: an op, a file with its line, or a configuration key.
  [[nodiscard]] const std::string& where() const { return where_; }
  /// What is wrong, without the place and the fix.
  [[nodiscard]] const std::string& message() const { return message_; }
  [[nodiscard]] const std::string& hint() const { return hint_; }

 private:
  ErrorCode code_;
  std::string where_;
  std::string message_;
  std::string hint_;
};

}  // namespace snug
