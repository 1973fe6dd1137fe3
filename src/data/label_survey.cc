// SPDX-License-Identifier: Apache-2.0
#include "data/label_survey.h"

#include <cmath>

#include "base/numbers.h"
#include "data/source.h"

namespace snug::data {
namespace {

// JSON says what is a number; elsewhere every text that is one.
void add(const RowLabel& label, bool is_json, LabelSurvey& survey) {
  ++survey.labelled;
  if (label.is_list) {
    survey.all_numbers = false;
    ++(label.is_number ? survey.lists_of_numbers : survey.lists_of_text);
    return;
  }
  if (is_json) {
    survey.all_numbers = survey.all_numbers && label.is_number;
    survey.has_fraction = survey.has_fraction || label.has_fraction;
    return;
  }
  const std::optional<double> value = number_in<double>(label.items.front());
  survey.all_numbers = survey.all_numbers && value && std::isfinite(*value);
  survey.has_fraction = survey.has_fraction || (value && *value != std::trunc(*value));
}

}  // namespace

LabelSurvey survey_labels(const std::string& file, RowSchema schema, BadRows bad_rows,
                          const std::atomic<bool>* cancel) {
  schema.text_form = TextForm::any;
  BadRowLog log{.policy = bad_rows};
  const auto reader = open_rows(file, schema, log);
  const bool is_json = file.ends_with(".json") || file.ends_with(".jsonl");
  LabelSurvey survey;
  Row row;
  while (reader->next(row)) {
    check_cancelled(cancel, file);
    survey.lists_of_words += row.has_words ? 1 : 0;
    if (row.label) add(*row.label, is_json, survey);
  }
  return survey;
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
