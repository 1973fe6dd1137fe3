// SPDX-License-Identifier: Apache-2.0
#include "train/notices.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "io/file.h"
#include "programs/programs.h"

namespace snug::train {
namespace {

constexpr size_t kListed = 8;

std::string joined(const std::vector<std::string>& names, size_t limit) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), limit); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > limit) text += ", ... (" + std::to_string(names.size()) + " in all)";
  return text;
}

/// The names of equal layers as one: "layer.0.bias", "layer.1.bias" is "layer.{0-1}.bias". Each is
/// there, and thousands of layers are a few lines. Numbers rise in the order of the names.
std::vector<std::string> ranges_of(const std::vector<std::string>& names) {
  struct Range {
    std::string before, after;
    int64_t first = 0, last = 0;
  };
  std::vector<Range> ranges;
  std::map<std::string, size_t> open;  // the newest range by what surrounds its number
  for (const std::string& name : names) {
    const size_t begin = name.find_first_of("0123456789");
    const size_t end = std::min(name.find_first_not_of("0123456789", begin), name.size());
    if (begin == std::string::npos || end - begin > 9) {
      ranges.push_back({.before = name, .after = {}, .first = -1, .last = -1});
      continue;
    }
    const Range own{.before = name.substr(0, begin),
                    .after = name.substr(end),
                    .first = std::stoll(name.substr(begin, end - begin)),
                    .last = std::stoll(name.substr(begin, end - begin))};
    const auto [place, is_new] = open.try_emplace(own.before + "*" + own.after, ranges.size());
    if (!is_new && ranges[place->second].last + 1 == own.first) {
      ranges[place->second].last = own.first;
      continue;
    }
    place->second = ranges.size();
    ranges.push_back(own);
  }
  std::vector<std::string> texts;
  for (const Range& range : ranges) {
    std::string number = range.first < 0 ? "" : std::to_string(range.first);
    if (range.last > range.first) number = "{" + number + "-" + std::to_string(range.last) + "}";
    texts.push_back(range.before + number + range.after);
  }
  return texts;
}

/// "0 = neg, 1 = pos"
std::string numbered(const data::Labels& labels) {
  std::vector<std::string> entries;
  for (int32_t id = 0; id < labels.size(); ++id)
    entries.push_back(std::to_string(id) + " = " + labels.name(id));
  return joined(entries, kListed);
}

}  // namespace

void say(const RunOptions& options, const std::string& text) {
  if (!text.empty() && options.callbacks.on_message) options.callbacks.on_message(text);
}

void say(const RunOptions& options, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) say(options, text);
}

std::vector<std::string> model_notices(const Model& model) {
  std::vector<std::string> notices;
  if (!model.ignored.empty()) {
    notices.push_back("not understood and without effect in " + model.config_file + ": " +
                      joined(model.ignored, kListed));
  }
  for (const std::string& name : model.fresh) notices.push_back("fresh weights for " + name);
  if (!model.unused.empty()) {
    notices.push_back("not used of " + model.weights_folder + ": " + joined(model.unused, kListed));
  }
  if (!model.weights_folder.empty()) return notices;
  std::vector<std::string> names;
  for (const Value& value : parameters_of(network_of(model))) names.push_back(value.name);
  if (io::file_exists(model.name) || io::is_folder(model.name)) {
    const std::vector<std::string> ranges = ranges_of(names);
    notices.push_back(model.name + " has no weights: all " + std::to_string(names.size()) +
                      " are fresh: " + joined(ranges, ranges.size()));
  } else {
    notices.push_back(model.name + " is a preset: all " + std::to_string(names.size()) +
                      " weights are fresh");
  }
  return notices;
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
        labels.name(static_cast<int32_t>(only)) +
        "': there is nothing to tell apart (label_column is the column of the class)");
  }
  return notices;
}

std::vector<std::string> row_notices(const std::string& file, const data::DataReport& report) {
  std::vector<std::string> notices;
  const auto add = [&](int64_t count, const std::string& what) {
    if (count == 0) return;
    notices.push_back("warning: " + std::to_string(count) + " of " +
                      std::to_string(report.rows_read) + " rows of " + file + " " + what);
  };
  add(report.unlabelled, "have no label and are left out");
  add(report.dropped_empty, "have no text and are left out");
  add(report.bad, "cannot be read and are left out (bad_rows: skip)" +
                      (report.bad_examples.empty() ? std::string()
                                                   : ", such as " + report.bad_examples.front()));
  return notices;
}

std::string spare_rows_warning(const Model& model, int64_t tokens) {
  const int64_t rows = model.traits.vocab_size;
  if (model.weights_folder.empty() || tokens >= rows) return {};
  return fmt::format(
      "warning: the tokenizer has {} tokens, the model's embedding {} rows: the last {} are never "
      "read (usual where a model was padded, not where a vocabulary was cut)",
      tokens, rows, rows - tokens);
}

std::string warmup_warning(const RunConfig& config, int64_t updates) {
  if (updates <= 0 || config.warmup_steps < updates) return {};
  return fmt::format(
      "warning: warmup_steps {} in a run of {} updates: the learning rate rises to the end and "
      "never reaches {:.3g}",
      config.warmup_steps, updates, config.learning_rate);
}

}  // namespace snug::train
