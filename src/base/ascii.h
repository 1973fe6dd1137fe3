// SPDX-License-Identifier: Apache-2.0
// Letters, digits and spaces of ASCII, the same in every process: <cctype> follows the locale that
// the host has set.
#pragma once

#include <string>

namespace snug::ascii {

[[nodiscard]] constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
[[nodiscard]] constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
[[nodiscard]] constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
[[nodiscard]] constexpr bool is_alphanumeric(char c) {
  return is_digit(c) || is_upper(c) || is_lower(c);
}
[[nodiscard]] constexpr bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
[[nodiscard]] constexpr char to_lower(char c) {
  return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
}
[[nodiscard]] constexpr char to_upper(char c) {
  return is_lower(c) ? static_cast<char>(c - 'a' + 'A') : c;
}
[[nodiscard]] inline std::string lowered(std::string text) {
  for (char& c : text) c = to_lower(c);
  return text;
}

}  // namespace snug::ascii
