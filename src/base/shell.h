// SPDX-License-Identifier: Apache-2.0
// Texts in the commands that messages give: whoever pastes one runs what was meant.
#pragma once

#include <string>

namespace snug {

/// One word of a POSIX shell that is the text; as it stands where no quotes are needed.
[[nodiscard]] std::string shell_word(const std::string& text);
/// A literal of Python that is the text, in single quotes.
[[nodiscard]] std::string python_literal(const std::string& text);

/// The command of the program that writes the weights of one file as safetensors into another.
[[nodiscard]] std::string convert_line(const std::string& from, const std::string& to);

}  // namespace snug
