// SPDX-License-Identifier: Apache-2.0
// Rows of text: tokenised once into a cache, cut at max_seq_length.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/row_files.h"
#include "notices/data_notices.h"
#include "notices/label_warnings.h"
#include "run_rows/input.h"
#include "snug/error.h"

namespace snug::run_rows {

using text::Tokenizer;

namespace {

using Json = nlohmann::ordered_json;

bool is_default(const RunConfig& config, const char* key) {
  return config.source_of(key) == ConfigSource::default_value &&
         config.get(key) == RunConfig().get(key);
}

/// Where max_seq_length is not given, it is what the folder was trained with.
void take_max_length(RunConfig& config, int64_t saved, int64_t max_positions,
                     const RunOptions& options) {
  const bool is_given = !is_default(config, "max_seq_length");
  const auto tokens = [&] { return std::to_string(config.max_seq_length); };
  if (saved == 0) {
    if (is_given) return;
    if (max_positions > 0) config.max_seq_length = std::min(config.max_seq_length, max_positions);
    notices::say(options, "texts are cut at " + tokens() + " tokens: " + config.model +
                              " has no model_max_length, and max_seq_length is not given");
    return;
  }
  if (is_given && config.max_seq_length != saved) {
    notices::say(options, "texts are cut at " + tokens() + " tokens (max_seq_length); " +
                              config.model + " was trained with " + std::to_string(saved));
  }
  if (is_given) return;
  const bool has_fewer_positions = max_positions > 0 && max_positions < saved;
  config.max_seq_length = has_fewer_positions ? max_positions : saved;
  notices::say(options, "texts are cut at " + tokens() + " tokens (" +
                            (has_fewer_positions ? "the positions" : "model_max_length") + " of " +
                            config.model + ")");
}

/// So with what becomes of longer texts.
void take_overlong(RunConfig& config, const text::TextLimits& saved, const RunOptions& options) {
  if (saved.overlong.empty()) return;
  if (!is_default(config, "overlong") || !is_default(config, "stride")) {
    if (config.overlong != saved.overlong || config.stride != saved.stride)
      notices::say(options, config.model + " was trained with overlong: " + saved.overlong +
                                ", stride: " + std::to_string(saved.stride));
    return;
  }
  config.overlong = saved.overlong;
  config.stride = saved.stride;
  config.validate();
  const std::string keys = "overlong: " + saved.overlong +
                           (saved.stride > 0 ? ", stride: " + std::to_string(saved.stride) : "");
  notices::say(options, "longer texts are read as in training (" + keys + ")");
}

Json data_json(const std::string& file, const data::TokenCache& cache) {
  const data::DataReport& report = cache.report();
  Json json = {{"file", file},
               {"rows", report.rows_read},
               {"kept", report.kept},
               {"truncated", report.truncated},
               {"dropped", report.dropped_empty},
               {"dropped_long", report.dropped_long},
               {"more_windows", report.more_windows},
               {"unlabelled", report.unlabelled},
               {"bad", report.bad},
               {"tokens", report.tokens},
               {"unknown_tokens", report.unknown_tokens},
               {"max_length", report.max_length}};
  json["bad_examples"] = report.bad_examples;
  json["length_histogram"] = Json::array();
  const std::vector<int32_t> edges = data::bucket_lengths(report.max_length, report.max_length);
  size_t length = 0;
  for (int32_t edge : edges) {
    int64_t rows = 0;
    for (; length <= static_cast<size_t>(edge) && length < report.length_counts.size(); ++length)
      rows += report.length_counts[length];
    json["length_histogram"].push_back({{"up_to", edge}, {"rows", rows}});
  }
  json["labels"] = Json::object();
  const std::vector<std::string> names = data::told_apart(cache.labels().names());
  for (size_t i = 0; i < report.label_counts.size(); ++i)
    json["labels"][names[i]] = report.label_counts[i];
  return json;
}

std::string data_text(const Json& json) {
  const int64_t rows = std::max<int64_t>(json["kept"].get<int64_t>(), 1);
  std::string out = fmt::format(
      "data {}\n  {} rows read: {} kept ({} of them truncated), {} dropped as empty, {} "
      "unlabelled, {} bad\n",
      json["file"].get<std::string>(), json["rows"].get<int64_t>(), json["kept"].get<int64_t>(),
      json["truncated"].get<int64_t>(), json["dropped"].get<int64_t>(),
      json["unlabelled"].get<int64_t>(), json["bad"].get<int64_t>());
  if (const auto count = json["dropped_long"].get<int64_t>(); count > 0)
    out += fmt::format("  {} dropped as too long\n", count);
  if (const auto count = json["more_windows"].get<int64_t>(); count > 0)
    out += fmt::format("  {} of the rows kept are further windows of a text\n", count);
  for (const Json& example : json["bad_examples"])
    out += "  bad: " + example.get<std::string>() + "\n";
  out += fmt::format("  {} tokens, longest row {}\n  length\n", json["tokens"].get<int64_t>(),
                     json["max_length"].get<int64_t>());
  for (const Json& bucket : json["length_histogram"]) {
    const int64_t count = bucket["rows"].get<int64_t>();
    out += fmt::format("  {:>7} {:>9}  {}\n", fmt::format("<= {}", bucket["up_to"].get<int64_t>()),
                       count, std::string(static_cast<size_t>(count * 60 / rows), '#'));
  }
  return out + labels_text(json["labels"]);
}

class TextInput final : public Input {
 public:
  [[nodiscard]] std::unique_ptr<const Tokenizer> open_tokenizer_alone(
      const RunConfig& config, const RunOptions& options, const run_model::Model& model,
      const std::string& folder) const override {
    if (learns_vocabulary(config, folder) && model.weights_folder.empty()) return nullptr;
    return open_tokenizer(config, options, folder, *model.task->rows);
  }
  void open_training(const RunConfig& config, const RunOptions& options,
                     const run_model::Model& model, const std::string& tokenizer_folder,
                     const WorkFolder& work, RunData& run) const override;
  [[nodiscard]] std::unique_ptr<const Tokenizer> open_trained(
      RunConfig& config, const RunOptions& options, const run_model::Model& model) const override {
    const text::TextLimits saved = Tokenizer::saved_limits(config.model);
    take_max_length(config, saved.max_length, model.traits.max_positions, options);
    take_overlong(config, saved, options);
    return open_tokenizer(config, options, {}, *model.task->rows);
  }
  [[nodiscard]] TrainedRows open_rows(const RunConfig& config, const RunOptions& options,
                                      const run_model::Model& model, const Tokenizer* tokenizer,
                                      const std::string& file, data::LabelUse use,
                                      const std::string& cache_path) const override;
  [[nodiscard]] Inspection inspect(const InspectRequest& request) const override;
};

// Which label an id means is said wherever a file has no names.
void say_ids(const RunOptions& options, const std::string& file, const data::TokenCache& cache) {
  if (cache.label_source() == data::LabelSource::ids)
    notices::say(options, notices::label_notice(file, cache.labels(), data::LabelSource::ids));
}

void TextInput::open_training(const RunConfig& config, const RunOptions& options,
                              const run_model::Model& model, const std::string& tokenizer_folder,
                              const WorkFolder& work, RunData& run) const {
  const data::RowForm& form = *model.task->rows;
  run.learns_vocabulary = learns_vocabulary(config, tokenizer_folder);
  if (!config.validation_file.empty())
    read_first_rows(config, options, config.validation_file, form);
  run.tokenizer = open_tokenizer(config, options, tokenizer_folder, form);
  if (!tokenizer_folder.empty()) check_tokenizer(config, *run.tokenizer);
  auto train = std::make_unique<data::TokenCache>(
      open_file(config, options, *run.tokenizer, config.train_file,
                {.form = &form,
                 .width = model.label_rule.is_trained ? model.traits.num_labels : config.num_labels,
                 .use = data::LabelUse::find,
                 .rule = model.label_rule},
                work.path() + "/train.tokens"));
  int32_t longest = train->max_length();
  run.num_labels = train->width();
  run.labels = train->labels();
  run.label_source = train->label_source();
  run.label_counts = train->report().label_counts;
  if (!run.labels.names().empty()) {
    notices::say(options, notices::label_notice(config.train_file, run.labels, run.label_source));
    notices::warn(options,
                  notices::label_warnings(config.train_file, run.labels, run.label_counts));
  }
  run.train = std::move(train);
  if (!config.validation_file.empty()) {
    auto validation = std::make_unique<data::TokenCache>(open_file(
        config, options, *run.tokenizer, config.validation_file,
        {.form = &form, .width = run.num_labels, .use = data::LabelUse::known, .known = run.labels},
        work.path() + "/validation.tokens"));
    say_ids(options, config.validation_file, *validation);
    longest = std::max(longest, validation->max_length());
    run.validation = std::move(validation);
  }
  run.buckets = data::bucket_lengths(static_cast<int32_t>(config.max_seq_length), longest);
}

TrainedRows TextInput::open_rows(const RunConfig& config, const RunOptions& options,
                                 const run_model::Model& model, const Tokenizer* tokenizer,
                                 const std::string& file, data::LabelUse use,
                                 const std::string& cache_path) const {
  FileLabels labels{.form = &*model.task->rows,
                    .width = model.traits.num_labels,
                    .use = use,
                    .rule = {.is_trained = true},
                    .known = {}};
  if (use == data::LabelUse::known) labels.known = data::Labels::from_names(model.labels);
  auto cache = std::make_unique<data::TokenCache>(
      open_file(config, options, *tokenizer, file, labels, cache_path + ".tokens"));
  say_ids(options, file, *cache);
  const auto most = static_cast<int32_t>(config.max_seq_length);
  std::vector<int32_t> buckets = data::bucket_lengths(most, cache->max_length());
  TrainedRows trained{.rows = nullptr, .buckets = std::move(buckets), .skipped = {}};
  if (use == data::LabelUse::ignore && cache->report().bad > 0)
    trained.skipped = skipped_texts(
        data::row_files(file), predicted_schema(config, options, *model.task->rows, *tokenizer),
        cache_path + ".skipped");
  trained.rows = std::move(cache);
  return trained;
}

Inspection TextInput::inspect(const InspectRequest& request) const {
  Inspection found;
  const data::RowForm& form = *request.task.rows;
  const auto tokenizer = open_tokenizer(request.config, request.options, {}, form);
  found.vocab_size = tokenizer->vocab_size();
  const data::LabelRule rule =
      request.model == nullptr ? data::LabelRule{} : request.model->label_rule;
  for (const std::string& file : request.files) {
    const FileLabels use =
        found.labels.size() == 0
            ? FileLabels{.form = &form, .use = data::LabelUse::find, .rule = rule}
            : FileLabels{
                  .form = &form, .use = data::LabelUse::known, .rule = {}, .known = found.labels};
    const data::TokenCache cache = open_file(request.config, request.options, *tokenizer, file, use,
                                             request.folder + "/inspect.tokens");
    found.labels = cache.labels();
    found.num_labels = cache.width();
    found.files.push_back(data_json(file, cache));
    found.text += data_text(found.files.back());
  }
  return found;
}

}  // namespace

const Input& text_input() {
  static const TextInput input;
  return input;
}

}  // namespace snug::run_rows
