// SPDX-License-Identifier: Apache-2.0
#include "setup/data_notices.h"

#include <algorithm>

#include "base/printable.h"
#include "setup/listed.h"

namespace snug::train {
namespace {

/// "0 = neg, 1 = pos"
std::string numbered(const data::Labels& labels) {
  std::vector<std::string> entries;
  for (int32_t id = 0; id < labels.size(); ++id)
    entries.push_back(std::to_string(id) + " = " + printable_name(labels.name(id)));
  return joined(entries, kListed);
}

}  // namespace

void say(const RunOptions& options, const std::string& text) {
  if (!text.empty() && options.callbacks.on_message) options.callbacks.on_message(printable(text));
}

void say(const RunOptions& options, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) say(options, text);
}

std::vector<std::string> label_notices(const std::string& file, const data::Labels& labels,
                                       data::LabelSource source,
                                       const std::vector<int64_t>& counts) {
  std::vector<std::string> notices;
  if (source != data::LabelSource::data) {
    notices.push_back(std::string("the labels are the model's, ") + numbered(labels) + "; " + file +
                      " gives their " + (source == data::LabelSource::ids ? "ids" : "names"));
  }
  const auto occurs = [](int64_t count) { return count > 0; };
  if (std::count_if(counts.begin(), counts.end(), occurs) == 1) {
    const auto only = std::find_if(counts.begin(), counts.end(), occurs) - counts.begin();
    notices.push_back(
        "warning: every row of " + file + " has the label '" +
        printable_name(labels.name(static_cast<int32_t>(only))) +
        "': there is nothing to tell apart (label_column is the column of the class)");
  }
  return notices;
}

std::vector<std::string> row_notices(const std::string& file, const data::DataReport& report,
                                     const RunConfig& config) {
  std::vector<std::string> notices;
  const auto add = [&](int64_t count, const std::string& what) {
    if (count == 0) return;
    notices.push_back("warning: " + std::to_string(count) + " of " +
                      std::to_string(report.rows_read) + " rows of " + file + " " + what);
  };
  add(report.unlabelled, "have no label and are left out");
  add(report.dropped_empty, "have no text and are left out");
  if (!report.lost_labels.empty()) {
    notices.push_back("warning: of " + file + " no row is left that has the label " +
                      data::list_labels(report.lost_labels) + ": it is not learned");
  }
  add(report.bad, "cannot be read and are left out (bad_rows: skip)" +
                      (report.bad_examples.empty() ? std::string()
                                                   : ", such as " + report.bad_examples.front()));
  const std::string longer =
      "have more than max_seq_length " + std::to_string(config.max_seq_length) + " tokens and ";
  add(report.truncated,
      longer + (config.overlong == "head_tail" ? "lose their middle (overlong: head_tail)"
                                               : "are cut at their end (overlong: truncate)"));
  add(report.dropped_long, longer + "are left out (overlong: drop)");
  add(report.windowed, longer + "are " + std::to_string(report.windowed + report.more_windows) +
                           " windows (overlong: window, stride " + std::to_string(config.stride) +
                           ")");
  return notices;
}

}  // namespace snug::train
