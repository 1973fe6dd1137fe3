// SPDX-License-Identifier: Apache-2.0
#include "notices/data_notices.h"

#include <algorithm>

#include "base/listed.h"
#include "base/printable.h"

namespace snug::notices {
namespace {

constexpr double kManyUnknown = 0.05;

/// "0 = neg, 1 = pos"
std::string numbered(const data::Labels& labels) {
  std::vector<std::string> entries;
  for (int32_t id = 0; id < labels.size(); ++id)
    entries.push_back(std::to_string(id) + " = " + printable_name(labels.name(id)));
  return joined(entries, kListed);
}

class RowWarnings {
 public:
  RowWarnings(const std::string& file, const data::DataReport& report)
      : file_(file), rows_(report.rows_read) {}

  void add(const char* code, int64_t count, const std::string& what) {
    if (count == 0) return;
    all_.push_back({.code = code,
                    .text = std::to_string(count) + " of " + std::to_string(rows_) + " rows of " +
                            file_ + " " + what,
                    .count = count,
                    .share = static_cast<double>(count) / static_cast<double>(rows_)});
  }
  void add(Warning warning) { all_.push_back(std::move(warning)); }
  [[nodiscard]] std::vector<Warning> all() && { return std::move(all_); }

 private:
  const std::string& file_;
  int64_t rows_;
  std::vector<Warning> all_;
};

void add_unknown(const std::string& file, const data::DataReport& report, int64_t around,
                 RowWarnings& warnings) {
  const int64_t tokens = report.tokens - around * report.kept;
  const auto share = static_cast<double>(report.unknown_tokens) /
                     static_cast<double>(std::max<int64_t>(tokens, 1));
  if (!(share > kManyUnknown)) return;
  warnings.add({.code = "unknown_tokens",
                .text = std::to_string(report.unknown_tokens) + " of the " +
                        std::to_string(tokens) + " tokens of " + file + " (" + share_text(share) +
                        ") are unknown to the vocabulary, and all of them look alike to the model "
                        "(is it the tokenizer of these texts' language?)",
                .count = report.unknown_tokens,
                .share = share});
}

}  // namespace

std::string label_notice(const std::string& file, const data::Labels& labels,
                         data::LabelSource source) {
  if (source == data::LabelSource::data) return {};
  return std::string("the labels are the model's, ") + numbered(labels) + "; " + file +
         " gives their " + (source == data::LabelSource::ids ? "ids" : "names");
}

std::vector<Warning> row_warnings(const std::string& file, const data::DataReport& report,
                                  const RunConfig& config, const RowUse& use) {
  RowWarnings warnings(file, report);
  warnings.add("unlabelled_rows", report.unlabelled, "have no label and are left out");
  warnings.add("empty_rows", report.dropped_empty, "have no text and are left out");
  if (!report.lost_labels.empty()) {
    warnings.add({.code = "lost_labels",
                  .text = "of " + file + " no row is left that has the label " +
                          data::list_labels(report.lost_labels) + ": it is not learned",
                  .count = static_cast<int64_t>(report.lost_labels.size()),
                  .share = {}});
  }
  warnings.add("bad_rows", report.bad,
               std::string("cannot be read and ") +
                   (use.is_predicted ? "have null in place of a prediction" : "are left out") +
                   " (bad_rows: skip)" +
                   (report.bad_examples.empty() ? std::string()
                                                : ", such as " + report.bad_examples.front()));
  const std::string longer =
      "have more than max_seq_length " + std::to_string(config.max_seq_length) + " tokens and ";
  warnings.add(
      "truncated_rows", report.truncated,
      longer + (config.overlong == "head_tail" ? "lose their middle (overlong: head_tail)"
                : config.overlong == "tail"    ? "are cut at their beginning (overlong: tail)"
                                               : "are cut at their end (overlong: truncate)"));
  warnings.add("long_rows", report.dropped_long, longer + "are left out (overlong: drop)");
  warnings.add("windowed_rows", report.windowed,
               longer + "are " + std::to_string(report.windowed + report.more_windows) +
                   " windows (overlong: window, stride " + std::to_string(config.stride) + ")");
  warnings.add("invisible_rows", report.invisible,
               "have blanks and characters without a glyph in place of a text");
  if (report.doubled_quotes > 0 || 2 * report.quoted >= std::max<int64_t>(report.kept, 1))
    warnings.add("quoted_fields", report.quoted,
                 "have a field in quotes as CSV has them, and in a file of tabs quotes are a part "
                 "of the text (write the file without them, or as .csv)");
  add_unknown(file, report, use.around, warnings);
  return std::move(warnings).all();
}

}  // namespace snug::notices
