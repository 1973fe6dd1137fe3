// SPDX-License-Identifier: Apache-2.0
// Texts in which there is nothing to see.
#pragma once

#include <string_view>

#include "data/row_reader.h"

namespace snug::data {

/// True where every character is a blank, a control or a format character, or a filler without a
/// glyph (zero-width spaces, soft hyphens, byte order marks, ...). The text is valid UTF-8.
[[nodiscard]] bool is_invisible(std::string_view text);
/// The same of all texts of a row.
[[nodiscard]] bool is_invisible(const Row& row);

}  // namespace snug::data
