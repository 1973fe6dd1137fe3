// SPDX-License-Identifier: Apache-2.0
// The run configuration: every key of a run, declared once (snug/train_fields.inc for those that a
// session has too, src/config/options.cc for the others). These declarations drive the YAML file,
// the command line, defaults, validation, help, the dump, the JSON in checkpoints and
// docs/configuration.md. Names and defaults are Hugging Face's or DeepSpeed's where they have one.
//
// Design: precedence is default < environment < file < command line; of a key given twice on the
// command line the last value wins, a key twice in a file is an error. Every failure is
// Error{bad_config} whose where() is the key (or file:line).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "snug/bad_rows.h"
#include "snug/interval.h"
#include "snug/tokenizer_kind.h"
#include "snug/train_spec.h"

namespace snug {

/// What may be recomputed: the planner's choice by the budget, or a named strategy ("keep-all",
/// "recompute-all", "sqrt", "every:4", ...; docs/planning.md).
struct RecomputeSetting {
  std::string strategy;  // empty: by the budget
  bool operator==(const RecomputeSetting&) const = default;
};

enum class ConfigSource : uint8_t { default_value, environment, file, command_line };
[[nodiscard]] std::string_view to_string(ConfigSource source);

/// Keys and values in the order given; no value stands for a switch without one ("--resume").
using ConfigOverrides = std::vector<std::pair<std::string, std::optional<std::string>>>;

struct RunConfig {
  // Model.
  std::string model;
  std::vector<int64_t> hidden_sizes = {256};
  int64_t hidden_size = 0;  // 0: the model's own, as all three
  int64_t num_hidden_layers = 0;
  int64_t embedding_size = 0;
  std::string tokenizer;  // empty: learned from the training text
  TokenizerKind tokenizer_kind = TokenizerKind::wordpiece;
  int64_t vocab_size = 30522;
  int64_t image_size = 0;                              // 0: the model's own
  std::vector<int64_t> stage_blocks;                   // empty: the model's own
  int64_t num_labels = 0;                              // 0: from the data, else the model's own
  bool fresh_head = false;                             // a new classifier for a trained model
  std::optional<double> hidden_dropout_prob;           // unset: the model's own
  std::optional<double> attention_probs_dropout_prob;  // unset: the model's own
  std::string pooling = "auto";      // the model's own head, or first, mean, max, attention
  int64_t pooling_layers = 0;        // 0: the model's own
  int64_t multi_sample_dropout = 0;  // 0: the model's own
  int64_t reinit_layers = 0;         // the last layers of a model folder that begin fresh
  bool resize_embeddings = false;    // rows for tokens that the model's table does not have
  std::string lora_adapter;          // a folder; empty: adapters are fresh

  // Task.
  std::string task = "auto";
  std::string regression_loss = "mse";
  double threshold = 0.5;
  std::string span_scheme = "auto";
  std::vector<std::string> class_weights;  // empty: none; "balanced"; a number a label, by id
  double focal_gamma = 0;                  // 0: cross-entropy as it is
  std::vector<std::string> label_order;    // every label by id; empty: numbers, else bytes

  // Data.
  std::string train_file;
  std::string validation_file;
  std::string test_file;
  std::string text_column = "text";
  std::string delimiter = "auto";
  std::string text_pair_column;  // empty: none
  std::string label_column = "label";
  std::string weight_column;  // empty: every row counts the same
  double validation_split = 0.05;
  std::string f1_of;               // a label whose F1 is a metric; empty: none
  std::string sampler = "random";  // or "balanced": classes by chance, then their rows
  bool stratify = false;           // the held-out rows have the shares of labels that all have
  int64_t max_seq_length = 128;
  bool group_by_length = true;        // rows of alike lengths in a batch; false: random batches
  std::string overlong = "truncate";  // what a text beyond max_seq_length becomes
  int64_t stride = 0;                 // tokens that two windows share
  BadRows bad_rows = BadRows::stop;
  std::string cache_dir;  // empty: output_dir

  // What is trained and what that costs, beside the fields of SessionOptions: memory,
  // train_batch_size, optim, learning_rate, ... (snug/train_fields.inc).
#define SNUG_TRAIN_KEY(type, name, value, key, run_value, ...) type key = run_value;
#include "snug/train_fields.inc"

  // Memory.
  RecomputeSetting recompute;
  int64_t eval_batch_size = 0;  // 0: auto
  bool allow_new_split = false;
  std::vector<std::string> allow;  // levers that the planner may take

  // Optimizer and schedule.
  std::optional<double> adam_beta1;  // unset: the optimizer's own, as the two below and momentum
  std::optional<double> adam_beta2;
  std::optional<double> adam_epsilon;
  std::optional<double> momentum;
  bool nesterov = false;
  std::vector<std::string> optim_args;  // "name=value": hyper-parameters without a key of their own
  double warmup_ratio = 0.0;
  double num_train_epochs = 3.0;
  std::optional<int64_t> data_seed;  // of the order of rows; unset: seed
  double label_smoothing_factor = 0.0;

  // Output.
  std::string output_dir;
  Interval logging_steps = {.unit = IntervalUnit::updates, .count = 500};
  bool logging_first_step = false;
  Interval eval_steps = {.unit = IntervalUnit::epoch};
  Interval save_steps = {.unit = IntervalUnit::updates, .count = 500};
  int64_t save_total_limit = 0;    // checkpoint-N folders kept beside best/ and last/
  std::string report_to = "none";  // or tensorboard: event files in output_dir/runs
  std::string metric_for_best_model = "loss";
  std::optional<bool> greater_is_better;  // unset: as the metric wants
  int64_t early_stopping_patience = 0;    // 0: off
  double early_stopping_threshold = 0.0;
  bool resume = false;

  /// What fields of Hugging Face's TrainingArguments were turned into, which ask for what happens
  /// anyway or have no meaning here (docs/training-arguments.md), and what the environment sets:
  /// for the user to read.
  std::vector<std::string> notices;
  /// Where each value came from; keys that are absent have their default.
  std::map<std::string, ConfigSource, std::less<>> sources;

  /// Reads the YAML file (none if empty), applies the overrides, validates each value and all
  /// together. `recompute_variable`: the environment's RECOMPUTE, as bert4keras reads it: 1 is
  /// recompute: all where nothing else sets that, 0 is nothing.
  [[nodiscard]] static RunConfig load(const std::string& yaml_file,
                                      const ConfigOverrides& overrides = {},
                                      std::string_view recompute_variable = {});
  /// As load, from YAML text; `name` stands for it in errors.
  [[nodiscard]] static RunConfig parse(std::string_view yaml, const std::string& name,
                                       const ConfigOverrides& overrides = {},
                                       std::string_view recompute_variable = {});
  /// Reads what to_json wrote (a checkpoint's configuration).
  [[nodiscard]] static RunConfig from_json(std::string_view json, const std::string& name);

  /// Sets one key from text; a field of TrainingArguments that is no key is refused, since it may
  /// need others (load and parse take them). Hyphens count as underscores; no value is allowed for
  /// switches only.
  void set(std::string_view key, std::optional<std::string_view> value,
           ConfigSource source = ConfigSource::command_line);
  /// The value as text that set() reads back.
  [[nodiscard]] std::string get(std::string_view key) const;
  [[nodiscard]] ConfigSource source_of(std::string_view key) const;
  /// Checks what no key can check alone, e.g. that the micro-batch is not larger than the batch.
  void validate() const;
  /// Throws Error{bad_config} for the first of these keys that is empty, naming how to give it.
  void require(std::initializer_list<std::string_view> keys) const;
  [[nodiscard]] bool is_greater_better() const;

  /// One line a key with its source as a comment; a valid run configuration.
  [[nodiscard]] std::string to_yaml() const;
  /// One JSON object with every key, typed.
  [[nodiscard]] std::string to_json() const;
  /// Equal values; sources and notices do not count.
  [[nodiscard]] bool operator==(const RunConfig& other) const;
};

/// What a program needs to know of one key to build its parser or its help.
struct OptionInfo {
  std::string name;
  std::string
      type;  // "integer", "number", "text", "switch", "one of", "list of integers", "memory", ...
  std::string default_value;  // as text; empty: none
  std::string unit;           // "rows", "tokens", "updates", "bytes"; empty: none
  std::string range;          // "linear, cosine", "> 0", "[0, 1)"; empty: any
  std::string group;          // "Model", "Data", "Memory", "Training", "Output"
  std::string help;
  std::vector<std::string> allowed;  // of "one of": canonical values
  std::vector<std::string> names;    // values that mean something by name, beside others
  bool is_switch = false;            // may stand without a value
  ResumeRule resume_rule = ResumeRule::fixed;
};

/// Every key in the order of declaration.
[[nodiscard]] std::vector<OptionInfo> config_options();
/// The key nearest to a misspelt one; empty if none is near.
[[nodiscard]] std::string nearest_config_key(std::string_view key);
/// Help for a terminal of this width, keys grouped.
[[nodiscard]] std::string config_help(int columns = 100);
/// Every key with all that OptionInfo says, for a program that writes configurations: one JSON
/// object, {"options": [...]}.
[[nodiscard]] std::string config_options_json();
/// docs/configuration.md and docs/training-arguments.md.
[[nodiscard]] std::string config_markdown();
[[nodiscard]] std::string training_arguments_markdown();

/// Command-line words, split into configuration keys and the program's own. "--key value",
/// "--key=value" and switches without a value are taken; every other word stays in `rest`, in
/// order. An amount of memory may stand as it is printed, in two words: --memory 61.3 MiB.
struct ConfigArguments {
  ConfigOverrides overrides;
  std::vector<std::string> rest;
};
[[nodiscard]] ConfigArguments split_config_arguments(std::span<const std::string> words);
/// Error{bad_config} for an option ("--key=value" or "key") that neither the program nor the
/// configuration knows, with what does the same here or the nearest key.
[[noreturn]] void throw_unknown_option(std::string_view word, const std::string& where = {});

}  // namespace snug
