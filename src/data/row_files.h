// SPDX-License-Identifier: Apache-2.0
// Which files train_file, validation_file and test_file mean: one, several between commas, or
// patterns of names.
#pragma once

#include <string>
#include <vector>

namespace snug::data {

/// In the order in which their rows are read: that of the list, and of a pattern that of the bytes.
/// What is there under the whole name is that one file, commas and wildcards or not; whether a
/// single plain name is there is for its reader to find. Throws Error{bad_config} for a pattern
/// that nothing has, an empty name and a file that is named twice.
[[nodiscard]] std::vector<std::string> row_files(const std::string& given);

/// What the rows of a stream are written in, as the suffix of a file's name: ".arrow" where it
/// begins as Arrow's do, ".json" with a bracket, ".jsonl" with a brace, else ".tsv" where the
/// first line has a tab and no comma in front of it, else ".csv".
[[nodiscard]] std::string suffix_of_rows(const std::string& file);

}  // namespace snug::data
