// SPDX-License-Identifier: Apache-2.0
#include "run_rows/run_data.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/listed.h"
#include "data/row_files.h"
#include "data/rows.h"
#include "data/source.h"
#include "io/file.h"
#include "io/weight_files.h"
#include "notices/data_notices.h"
#include "run_memory/process_memory.h"
#include "run_model/adapter_config.h"
#include "snug/error.h"
#include "snug/memory.h"
#include "tasks/registry.h"
#include "text/vocabulary.h"

namespace snug::run_rows {

using text::Tokenizer;
using text::Truncation;

namespace {

/// The delimiter that a word of the key stands for; 0: what the header says.
char delimiter_of(const std::string& word) {
  for (const auto& [name, byte] : {std::pair<std::string_view, char>{"comma", ','},
                                   {"semicolon", ';'},
                                   {"tab", '\t'},
                                   {"bar", '|'}}) {
    if (word == name) return byte;
  }
  return 0;
}

/// `tokenizer` may be null: rows are not cut into tokens.
data::RowSchema schema_of(const RunConfig& config, const RunOptions& options, bool needs_label,
                          const data::RowForm& form, const Tokenizer* tokenizer) {
  const int64_t model_bytes = tokenizer != nullptr ? tokenizer->bytes_per_word_byte() : 0;
  return {.text_column = config.text_column,
          .text_pair_column = config.text_pair_column,
          .label_column = config.label_column,
          .delimiter = delimiter_of(config.delimiter),
          .needs_label = needs_label,
          .text_form = form.has_words ? data::TextForm::words : data::TextForm::text,
          .affordable_bytes =
              options.budgets_whole_process
                  ? std::min(data::kMaxRowBytes, run_memory::affordable_row_bytes(
                                                     resolve_memory(config.memory), model_bytes))
                  : data::kMaxRowBytes};
}

std::string model_tokenizer_folder(const RunConfig& config) {
  if (!io::is_folder(config.model)) return {};
  if (Tokenizer::is_in(config.model)) return config.model;
  if (!run_model::is_adapter_folder(config.model)) return {};
  // peft saves adapters alone: their tokens are the base's.
  const std::string base = run_model::read_adapter_config(config.model).base;
  return io::is_folder(base) && Tokenizer::is_in(base) ? base : std::string();
}

/// Where a folder says its tokenizer twice.
std::string tokenizer_notice(const std::string& path) {
  if (!io::is_folder(path)) return {};
  const std::vector<std::string> files = Tokenizer::files_in(path);
  if (files.size() < 2) return {};
  return "the tokenizer is read from " + files.front() + " of " + path + ", not from " +
         joined({files.begin() + 1, files.end()}, files.size());
}

// Rows of trained embeddings belong to the tokens that they were trained with: a vocabulary that is
// learned here would give each of them another meaning, without an error.
void refuse_without_tokenizer(const RunConfig& config) {
  const bool has_weights = io::is_folder(config.model) && !io::weight_entries(config.model).empty();
  if (!has_weights && !run_model::is_adapter_folder(config.model)) return;
  throw Error(
      ErrorCode::bad_data, config.model,
      "the folder has weights and no tokenizer, and the weights mean nothing for the tokens "
      "of another",
      "put the tokenizer's files (tokenizer.json, vocab.txt, ...) into it, or give "
      "tokenizer: the folder that they are in");
}

std::unique_ptr<const Tokenizer> learn_tokenizer(const RunConfig& config, const RunOptions& options,
                                                 const data::RowForm& form) {
  config.require({"train_file"});
  text::VocabularyLearner learner({.kind = config.tokenizer_kind,
                                   .vocab_size = config.vocab_size,
                                   .seed = static_cast<uint64_t>(config.seed),
                                   .lowercase = true});
  data::BadRowLog log{.policy = config.bad_rows};
  int64_t count = 0;
  for (const std::string& file : data::row_files(config.train_file)) {
    const auto reader =
        data::open_rows(file, schema_of(config, options, false, form, nullptr), log);
    data::Row row;
    while (reader->next(row)) {
      learner.add(row.text);
      for (const std::string& word : row.words) learner.add(word);
      if (!row.pair.empty()) learner.add(row.pair);
      if (++count % 4096 != 0) continue;
      data::check_cancelled(options.cancel, file);
      if (options.callbacks.on_progress) {
        options.callbacks.on_progress(
            {"reading words of " + file, reader->bytes_read(), reader->total_bytes()});
      }
    }
  }
  if (count == 0)
    throw Error(ErrorCode::bad_data, config.train_file, "the file has no rows",
                "give a file with at least one labelled row");
  notices::say(options,
               "learning a vocabulary of at most " + std::to_string(config.vocab_size) + " tokens");
  return std::make_unique<const Tokenizer>(Tokenizer::learned(learner.learn()));
}

data::Overlong overlong_of(const RunConfig& config) {
  for (const auto& [word, overlong] : {std::pair{"error", data::Overlong::error},
                                       {"drop", data::Overlong::drop},
                                       {"tail", data::Overlong::tail},
                                       {"head_tail", data::Overlong::head_tail},
                                       {"window", data::Overlong::window}}) {
    if (config.overlong == word) return overlong;
  }
  return data::Overlong::truncate;
}

Truncation cut_of(data::Overlong overlong) {
  if (overlong == data::Overlong::tail) return Truncation::begin;
  return overlong == data::Overlong::head_tail ? Truncation::middle : Truncation::end;
}

/// Rows as ids, whatever `overlong` makes of long ones; windows of a row are asked for one after
/// the other.
class RowEncoder {
 public:
  RowEncoder(const Tokenizer& tokenizer, const RunConfig& config, const data::RowForm& form)
      : tokenizer_(&tokenizer),
        max_length_(config.max_seq_length),
        stride_(config.stride),
        has_words_(form.has_words),
        has_windows_(overlong_of(config) == data::Overlong::window),
        cut_(cut_of(overlong_of(config))) {}

  void operator()(const data::RowText& row, data::EncodedRow& out) {
    if (has_windows_) {
      encode_window(row, out);
    } else if (has_words_) {
      tokenizer_->encode_words(row.words, max_length_, encoding_, out.words, scratch_, cut_);
    } else {
      const std::optional<std::string_view> second =
          row.pair != nullptr ? std::optional<std::string_view>(*row.pair) : std::nullopt;
      tokenizer_->encode(row.text, second, max_length_, encoding_, scratch_, cut_);
    }
    out.ids.assign(encoding_.ids.begin(), encoding_.ids.end());
    out.type_ids.assign(encoding_.type_ids.begin(), encoding_.type_ids.end());
    out.truncated = encoding_.truncated;
  }

 private:
  void encode_window(const data::RowText& row, data::EncodedRow& out) {
    if (row.window == 0) {
      windows_ = has_words_ ? tokenizer_->begin_windows(row.words, max_length_, stride_, scratch_)
                            : tokenizer_->begin_windows(row.text, max_length_, stride_, scratch_);
    }
    tokenizer_->window(row.window, max_length_, stride_, scratch_, encoding_,
                       has_words_ ? &out.words : nullptr);
    out.has_more = row.window + 1 < windows_;
  }

  const Tokenizer* tokenizer_;
  int64_t max_length_;
  int64_t stride_;
  bool has_words_;
  bool has_windows_;
  Truncation cut_;
  int64_t windows_ = 1;  // of the row
  text::EncodeScratch scratch_;
  text::Encoding encoding_;
};

/// What stands around every text: the tokens of one that is empty.
int64_t tokens_around(const Tokenizer& tokenizer, const RunConfig& config,
                      const data::RowForm& form) {
  const std::string empty;
  const data::RowText row{
      .text = empty, .words = {}, .pair = config.text_pair_column.empty() ? nullptr : &empty};
  data::EncodedRow encoded;
  RowEncoder(tokenizer, config, form)(row, encoded);
  return static_cast<int64_t>(encoded.ids.size());
}

/// The names that labels of these rows may have; empty: any.
std::vector<std::string> names_before(const FileLabels& labels) {
  if (labels.use == data::LabelUse::known) return labels.known.names();
  return labels.rule.is_trained ? labels.rule.model : std::vector<std::string>();
}

}  // namespace

WorkFolder::WorkFolder(const RunConfig& config) {
  path_ = !config.cache_dir.empty() ? config.cache_dir : config.output_dir;
  if (!path_.empty()) {
    path_ = io::absolute_path(path_);
    io::make_folders(path_);
    return;
  }
  path_ = io::make_temporary_folder();
  is_temporary_ = true;
}

void WorkFolder::remove() {
  if (!std::exchange(is_temporary_, false)) return;
  try {
    io::remove_all(path_);
  } catch (const Error&) {
    // A temporary folder that cannot be removed is no reason to fail a run that is over.
  }
}

bool learns_vocabulary(const RunConfig& config, const std::string& tokenizer_folder) {
  return tokenizer_folder.empty() && config.tokenizer.empty() &&
         model_tokenizer_folder(config).empty();
}

std::unique_ptr<const Tokenizer> open_tokenizer(const RunConfig& config, const RunOptions& options,
                                                const std::string& tokenizer_folder,
                                                const data::RowForm& form) {
  if (learns_vocabulary(config, tokenizer_folder)) {
    refuse_without_tokenizer(config);
    return learn_tokenizer(config, options, form);
  }
  std::string path = tokenizer_folder;
  if (path.empty()) {
    path = config.tokenizer.empty() ? model_tokenizer_folder(config) : config.tokenizer;
    if (config.source_of("tokenizer_kind") != ConfigSource::default_value)
      throw Error(ErrorCode::bad_config, "tokenizer_kind",
                  "it is of a learned vocabulary, and " + path + " is the tokenizer of this run",
                  "omit tokenizer_kind");
  }
  if (tokenizer_folder.empty()) notices::say(options, tokenizer_notice(path));
  return std::make_unique<const Tokenizer>(Tokenizer::load(path));
}

void require_memory_for_files(const std::string& folder) {
  constexpr int64_t kLeast = int64_t{32} << 20;
  const MemoryLimit left = memory_left();
  if (left.bytes - current_rss_bytes() >= kLeast) return;
  throw Error(ErrorCode::out_of_budget, folder,
              "it lies in memory (tmpfs), and what is written there of the rows leaves "
              "too little of the " +
                  left.source + " to go on",
              "name a folder on a disk: cache_dir, or output_dir; where neither is given, TMPDIR");
}

data::TokenCache open_file(const RunConfig& config, const RunOptions& options,
                           const Tokenizer& tokenizer, const std::string& file,
                           const FileLabels& labels, const std::string& cache_path) {
  data::RowSchema schema =
      schema_of(config, options, labels.use != data::LabelUse::ignore, *labels.form, &tokenizer);
  // Weights are of training; evaluation counts every row once.
  if (labels.use == data::LabelUse::find) schema.weight_column = config.weight_column;
  // A model that calls its classes by number knows no names.
  const std::vector<std::string> known = names_before(labels);
  schema.class_names = known.empty() || !data::are_only_ids(known);
  std::string fingerprint = tokenizer.fingerprint();
  if (!schema.text_pair_column.empty() && !tokenizer.has_type_ids()) fingerprint += " of one type";
  const data::CacheSpec spec{.files = data::row_files(file),
                             .schema = std::move(schema),
                             .form = labels.form,
                             .width = labels.width,
                             .bad_rows = config.bad_rows,
                             .label_use = labels.use,
                             .rule = labels.rule,
                             .known_labels = labels.known,
                             .overlong = overlong_of(config),
                             .stride = config.stride,
                             .max_seq_length = static_cast<int32_t>(config.max_seq_length),
                             .vocab_size = static_cast<int32_t>(tokenizer.vocab_size()),
                             .unknown_id = tokenizer.unk_id(),
                             .tokenizer_fingerprint = std::move(fingerprint)};
  data::BuildHooks hooks{.progress = {}, .cancel = options.cancel};
  const std::string folder = io::parent_folder(cache_path);
  const bool is_in_memory = io::lies_in_memory(folder);
  hooks.progress = [&](const data::BuildProgress& progress) {
    if (is_in_memory) require_memory_for_files(folder);
    if (!options.callbacks.on_progress) return;
    options.callbacks.on_progress(
        {"tokenising " + file, progress.bytes_read, progress.total_bytes});
  };
  if (options.callbacks.on_progress) {
    hooks.comparing = [&](int64_t done, int64_t total) {
      options.callbacks.on_progress({"comparing " + file, done, total});
    };
  }
  data::TokenCache cache = data::open_or_build_token_cache(
      cache_path, spec, RowEncoder(tokenizer, config, *labels.form), hooks);
  notices::warn(options,
                notices::row_warnings(file, cache.report(), config,
                                      {.around = tokens_around(tokenizer, config, *labels.form),
                                       .is_predicted = labels.use == data::LabelUse::ignore}));
  return cache;
}

const tasks::Task& task_of_labels(const RunConfig& config, const RunOptions& options) {
  const data::LabelSurvey survey =
      data::survey_labels(data::row_files(config.train_file),
                          schema_of(config, options, true, data::one_label(), nullptr),
                          config.bad_rows, options.cancel);
  if (const auto doubt = data::doubt_of(survey, config.train_file)) throw Error(*doubt);
  const tasks::Task& task = tasks::task_of_labels(survey);
  notices::say(options, "the task is " + *task.name + ": what the labels of " + config.train_file +
                            " look like");
  return task;
}

void check_tokenizer(const RunConfig& config, const Tokenizer& own) {
  if (config.tokenizer.empty()) return;
  if (Tokenizer::load(config.tokenizer).fingerprint() == own.fingerprint()) return;
  throw Error(
      ErrorCode::bad_config, "tokenizer",
      config.tokenizer + " has other tokens than the run in " + config.output_dir + " began with",
      "omit tokenizer: the run goes on with its own, in last/");
}

void read_first_rows(const RunConfig& config, const RunOptions& options, const std::string& file,
                     const data::RowForm& form) {
  for (const std::string& each : data::row_files(file)) {
    data::BadRowLog log{.policy = config.bad_rows};
    data::Row row;
    (void)data::open_rows(each, schema_of(config, options, true, form, nullptr), log)->next(row);
  }
}

data::RowSchema predicted_schema(const RunConfig& config, const RunOptions& options,
                                 const data::RowForm& form, const Tokenizer& tokenizer) {
  data::RowSchema schema = schema_of(config, options, false, form, &tokenizer);
  schema.label_column.clear();
  return schema;
}

data::TrainSampler train_sampler(const RunConfig& config, const RunData& run) {
  const data::RowStore& store = *run.train;
  data::SamplerOptions options{
      .batch_size = config.train_batch_size,
      .seed = static_cast<uint64_t>(config.data_seed.value_or(config.seed)),
      .buckets = run.buckets,
      .drops_remainder = run.drops_remainder,
      .groups_by_length = config.group_by_length};
  if (run.balanced)
    options.draw = [&rows = *run.balanced](int64_t epoch, int64_t number) {
      return rows.row(epoch, number);
    };
  return {run.train_part,
          [&store](std::span<const int64_t> rows, std::span<int32_t> lengths) {
            store.read_lengths(rows, lengths);
          },
          std::move(options)};
}

}  // namespace snug::run_rows
