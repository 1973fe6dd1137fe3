// SPDX-License-Identifier: Apache-2.0
// The words and the lines of a text, as views of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace snug {

/// What stands between spaces, tabs and ends of lines.
[[nodiscard]] std::vector<std::string_view> words_in(std::string_view text);
/// What stands between separators; a separator at the end ends the last piece.
[[nodiscard]] std::vector<std::string_view> pieces_in(std::string_view text, char separator);
[[nodiscard]] inline std::vector<std::string_view> lines_in(std::string_view text) {
  return pieces_in(text, '\n');
}
// Views of a text that is gone.
std::vector<std::string_view> words_in(std::string&&) = delete;
std::vector<std::string_view> pieces_in(std::string&&, char) = delete;
std::vector<std::string_view> lines_in(std::string&&) = delete;

}  // namespace snug
