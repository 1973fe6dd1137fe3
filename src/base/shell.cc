// SPDX-License-Identifier: Apache-2.0
#include "base/shell.h"

#include <algorithm>
#include <string_view>

#include "base/ascii.h"

namespace snug {

std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain = "_@%+=:,./-";
  const auto is_plain = [&](char c) {
    return ascii::is_alphanumeric(c) || kPlain.find(c) != kPlain.npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return text;
  if (text.find('\'') == text.npos) return "'" + text + "'";
  if (text.find_first_of("\"\\$`!") == text.npos) return "\"" + text + "\"";
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

std::string convert_line(const std::string& from, const std::string& to) {
  return "snug convert " + shell_word(from) + " --output " + shell_word(to);
}

std::string python_literal(const std::string& text) {
  std::string literal = "'";
  for (const char c : text) {
    if (c == '\n') {
      literal += "\\n";
      continue;
    }
    if (c == '\'' || c == '\\') literal += '\\';
    literal += c;
  }
  return literal + "'";
}

}  // namespace snug
