// SPDX-License-Identifier: Apache-2.0
// What the readers of rows share: JSON lines, CSV, TSV and Arrow's files differ in the file's name
// only.
#pragma once

#include <string>
#include <string_view>

namespace snug::fuzz {

/// Reads the input as a file of this name; its first byte chooses the columns and what a bad row
/// does.
void read_rows(const std::string& file_name, std::string_view input);

}  // namespace snug::fuzz
