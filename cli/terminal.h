// SPDX-License-Identifier: Apache-2.0
// Texts for a terminal of some width. Where stdout or stderr is no terminal, nothing is changed: a
// program that reads a line gets the line.
#pragma once

#include <string>
#include <vector>

namespace snug::cli {

/// Columns of the terminal behind a file descriptor; 0 where it is none.
[[nodiscard]] int terminal_columns(int descriptor);

/// Breaks every line of `text` that is longer than `columns` at its spaces; continuations stand
/// below the line's last column of a table, else two spaces further in. A word is never broken. 0:
/// as it is.
[[nodiscard]] std::string wrapped(const std::string& text, int columns);

/// The fields with two spaces between them, as many from the first on as `columns` holds; 0: all.
[[nodiscard]] std::string fitted(const std::vector<std::string>& fields, int columns);

/// At most so many columns: a longer text loses its middle.
[[nodiscard]] std::string shortened(const std::string& text, int columns);

/// To stdout, wrapped to its terminal; `is_exact` as it is (JSON).
void print(const std::string& text, bool is_exact = false);

}  // namespace snug::cli
