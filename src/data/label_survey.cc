// SPDX-License-Identifier: Apache-2.0
#include "data/label_survey.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/utf8.h"
#include "data/label_number.h"
#include "data/rows.h"
#include "data/source.h"
#include "io/text_file.h"

namespace snug::data {
namespace {

constexpr size_t kShownBytes = 40;
constexpr int64_t kNumbersPerWord = 9;
constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

std::string list_text(const RowLabel& label) {
  std::string text;
  for (const std::string& item : label.items) text += (text.empty() ? "" : ", ") + item;
  return clip_text("[" + text + "]", kShownBytes);
}

void add_list(const RowLabel& label, LabelSurvey& survey) {
  survey.all_numbers = false;
  if (!label.is_number) {
    ++survey.lists_of_text;
    return;
  }
  if (++survey.lists_of_numbers == 1) survey.list = list_text(label);
  survey.all_zero_or_one =
      survey.all_zero_or_one &&
      std::all_of(label.items.begin(), label.items.end(),
                  [](const std::string& item) { return item == "0" || item == "1"; });
}

// JSON says what is a number; elsewhere every text that is one.
void add(const RowLabel& label, bool is_of_json, const std::string& where, LabelSurvey& survey) {
  ++survey.labelled;
  if (label.is_list) {
    add_list(label, survey);
    return;
  }
  const std::string& text = label.items.front();
  const double value = spelled_number(text).value_or(kNoNumber);
  const bool has_fraction = label.has_fraction || value != std::trunc(value);
  if (is_of_json ? label.is_number : std::isfinite(value)) {
    if (++survey.numbers == 1) survey.number = clip_text(text, kShownBytes);
    survey.has_fraction = survey.has_fraction || has_fraction;
    return;
  }
  survey.all_numbers = false;
  if (std::isfinite(value)) {
    ++survey.quoted_numbers;
    survey.has_quoted_fraction = survey.has_quoted_fraction || has_fraction;
  }
  survey.missing += says_missing(text) ? 1 : 0;
  if (++survey.others > 1) return;
  survey.other = clip_text(text, kShownBytes);
  survey.other_place = where;
}

}  // namespace

LabelSurvey survey_labels(const std::vector<std::string>& files, RowSchema schema, BadRows bad_rows,
                          const std::atomic<bool>* cancel) {
  schema.text_form = TextForm::any;
  BadRowLog log{.policy = bad_rows};
  LabelSurvey survey;
  for (const std::string& file : files) {
    const auto reader = open_rows(file, schema, log);
    Row row;
    while (reader->next(row)) {
      check_cancelled(cancel, file);
      survey.lists_of_words += row.has_words ? 1 : 0;
      if (row.label) add(*row.label, has_types(file), place_of_row(file, row), survey);
    }
  }
  return survey;
}

std::optional<Error> doubt_of(const LabelSurvey& survey, const std::string& file) {
  const auto of = [&](int64_t count) {
    return std::to_string(count) + " of " + std::to_string(survey.labelled) + " labels";
  };
  // Words beside numbers are names of classes, unless they are few. In JSON numbers may be texts.
  const int64_t words = survey.others - survey.quoted_numbers;
  const int64_t numbers = survey.numbers + survey.quoted_numbers;
  const int64_t least = survey.missing == words ? words + 1 : kNumbersPerWord * words;
  if ((survey.has_fraction || survey.has_quoted_fraction) && survey.others > 0 &&
      numbers >= least) {
    const std::string found = survey.numbers > 0
                                  ? of(survey.numbers) + " are numbers such as " + survey.number +
                                        ", and " + of(survey.others) + " are none"
                                  : of(survey.quoted_numbers) + " are numbers in quotes";
    return Error(ErrorCode::bad_data, file,
                 found + ", such as '" + survey.other + "' at " + survey.other_place +
                     ": numbers to predict, or names of classes?",
                 "set task to regression (with bad_rows: skip, rows whose label is no number are "
                 "left out and counted), or to classification (every text is a class)");
  }
  if (survey.has_quoted_fraction && survey.numbers == 0 &&
      survey.quoted_numbers == survey.labelled) {
    return Error(ErrorCode::bad_data, file,
                 "all " + std::to_string(survey.labelled) +
                     " labels are numbers in quotes, such as '" + survey.other + "' at " +
                     survey.other_place + ": numbers to predict, or names of classes?",
                 "set task to regression, or to classification (every text is a class)");
  }
  if (survey.lists_of_numbers > 0 && survey.all_zero_or_one && survey.lists_of_words == 0 &&
      survey.lists_of_text == 0) {
    return Error(ErrorCode::bad_data, file,
                 "the labels of all " + std::to_string(survey.lists_of_numbers) +
                     " rows are lists of 0 and 1, such as " + survey.list +
                     ": which labels a row has, or numbers to predict?",
                 "set task to regression, or to multi_label (label_order says what the places are "
                 "called)");
  }
  return std::nullopt;
}

std::optional<Labels> labels_of_files(const std::vector<std::string>& files,
                                      const RowSchema& schema, const std::atomic<bool>* cancel) {
  LabelFinder finder;
  try {
    for (const std::string& file : files) {
      BadRowLog log{.policy = BadRows::skip};
      const auto reader = open_rows(file, schema, log);
      Row row;
      while (reader->next(row)) {
        check_cancelled(cancel, file);
        if (!row.label) continue;
        for (const std::string& label : row.label->items) (void)finder.add(label, file);
      }
    }
    return finder.finish().labels;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::bad_data || error.code() == ErrorCode::unsupported)
      return std::nullopt;  // too long, too many, or numbers
    throw;
  }
}

}  // namespace snug::data
