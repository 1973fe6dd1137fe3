// SPDX-License-Identifier: Apache-2.0
// What the labels of files look like, from one pass over their rows: enough to tell which task they
// are for.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "data/labels.h"
#include "data/row_reader.h"
#include "snug/error.h"

namespace snug::data {

struct LabelSurvey {
  int64_t labelled = 0;       // rows
  int64_t lists_of_text = 0;  // rows whose label is one; an empty list counts here
  int64_t lists_of_numbers = 0;
  int64_t lists_of_words = 0;  // rows whose text is one
  bool all_numbers = true;     // every label is one number
  bool has_fraction = false;   // one of them is not whole
  int64_t numbers = 0;         // labels that are one number
  std::string number{};        // the first of them
  int64_t others = 0;          // labels that are one text and no number
  int64_t missing = 0;         // of those: what tables write for nothing
  std::string other{};         // the first of them
  std::string other_place{};   // its file and line
  int64_t quoted_numbers = 0;  // of `others`: texts of JSON that are one number
  bool has_quoted_fraction = false;
  bool all_zero_or_one = true;  // of lists of numbers
  std::string list{};           // the first of these
};

/// Throws what open_rows and its reader throw, and Error{cancelled}.
[[nodiscard]] LabelSurvey survey_labels(const std::vector<std::string>& files, RowSchema schema,
                                        BadRows bad_rows, const std::atomic<bool>* cancel);

/// The error of labels that may mean two things, which the key `task` decides: a column of numbers
/// with fractions in which few labels are no numbers, or which JSON has in quotes, and lists of 0
/// and 1. Nothing where there is no doubt.
[[nodiscard]] std::optional<Error> doubt_of(const LabelSurvey& survey, const std::string& file);

/// All labels of the files; nothing where they are no labels. `schema`: as the rows are read.
[[nodiscard]] std::optional<Labels> labels_of_files(const std::vector<std::string>& files,
                                                    const RowSchema& schema,
                                                    const std::atomic<bool>* cancel);

}  // namespace snug::data
