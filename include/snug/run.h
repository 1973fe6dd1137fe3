// SPDX-License-Identifier: Apache-2.0
// What the program `snug` does, as functions: plan_run, train_model, evaluate_model, predict_rows,
// inspect_run, explain_run, verify_run, merge_adapters, convert_weights, export_model. Nothing is
// global and nothing is printed: progress and logs go to callbacks, every failure is a snug::Error.
// Calls in different threads do not disturb each other as long as their output folders differ. Work
// is done by the threads of the process's OpenMP; where other processes want the cores too, set
// OMP_WAIT_POLICY=passive in the environment before the process starts (on_message says when).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "snug/config.h"
#include "snug/error.h"
#include "snug/explain.h"
#include "snug/levers.h"
#include "snug/plan_report.h"

namespace snug {

/// How far a long step is; total is 0 where it is not known.
struct Progress {
  std::string stage;  // "reading train.jsonl", "planning", "training", "evaluating"
  int64_t done = 0;
  int64_t total = 0;
  std::string phase = {};  // of planning: "building the graph", "chain", "placement"
};

/// One logged update; the fields of metrics.jsonl.
struct UpdateLog {
  int64_t step = 0;
  int64_t total_steps = 0;
  double epoch = 0;
  double loss = 0;
  double learning_rate = 0;
  double grad_norm = 0;
  double tokens_per_second = 0;
  double waiting_for_rows = 0;  // share of the time since the line before
  int64_t arena_peak_bytes = 0;
  int64_t rss_bytes = 0;
  double loss_scale = 1;
  int64_t skipped_updates = 0;  // of the run so far, whose gradients overflowed
};

struct ClassScore {
  std::string label;
  int64_t rows = 0;
  double precision = 0;
  double recall = 0;  // the share of this class's rows that were found: accuracy per category
  double f1 = 0;
};

struct MetricValue {
  std::string name;  // "macro_f1"
  double value = 0;  // NaN where the rows do not define it
  std::string text;  // for a terminal: "macro F1 0.9031"
};

/// What a run does all the same, and what is rarely meant.
struct Warning {
  std::string code;             // "unknown_tokens": a contract (docs/files.md)
  std::string text;             // one line
  int64_t count = 0;            // of what the text is about; 0: it counts nothing
  std::optional<double> share;  // of what `count` is a part of; nothing: of none
};

/// Metrics of one pass over labelled rows.
struct EvalMetrics {
  int64_t rows = 0;
  double loss = 0;
  std::vector<MetricValue> values;  // those of the task, in its order
  std::vector<ClassScore> classes;  // of tasks that tell labels apart
  /// What is no number, by name: {"span_scheme", "IOB1"}.
  std::vector<std::pair<std::string, std::string>> words = {};
  std::vector<std::string> notes = {};  // how they are meant, for a terminal
  std::vector<Warning> warnings = {};   // what the rows are that is rarely meant
  /// The loss, or one of `values`; nothing where there is none of that name.
  [[nodiscard]] std::optional<double> find(std::string_view name) const;
};

struct Callbacks {
  std::function<void(const Progress&)> on_progress;
  std::function<void(const PlanReport&)> on_plan;
  std::function<void(const UpdateLog&)> on_update;
  std::function<void(int64_t step, const EvalMetrics&)> on_evaluation;
  /// The checkpoint of this update stands whole in the folder, which the next one replaces.
  std::function<void(int64_t step, const std::string& folder)> on_checkpoint = {};
  std::function<void(const std::string&)> on_message;
  /// Each warning, once; on_message gets its text behind "warning: ", too.
  std::function<void(const Warning&)> on_warning = {};
  /// Called by plan_run when planning has heard `cancel`. It then gives back what it holds, which
  /// takes a while where programs are long, and throws Error{cancelled}. A program that ends anyway
  /// may end in here: no file is open, nothing temporary is left.
  std::function<void(const Error&)> on_cancelled;
};

struct RunOptions {
  Callbacks callbacks;
  /// Set it from any thread (or a signal handler) to stop after the current update, with a
  /// checkpoint.
  const std::atomic<bool>* cancel = nullptr;
  /// The caller's memory for resident values and arena, page-aligned; empty: the library maps its
  /// own.
  std::span<std::byte> memory;
  /// True where config.memory is the budget of the whole process, code and libraries included, as
  /// in the program `snug`; false where this library is a part of a larger program and budgets
  /// resident values and arena alone.
  bool budgets_whole_process = false;
  /// With it: what the process had in memory already, which counts as the process's. For a host
  /// whose own bytes no formula knows (an interpreter).
  int64_t host_bytes = 0;
  /// Where measured speeds of this machine are kept; empty: $XDG_CACHE_HOME/snug or ~/.cache/snug.
  std::string profile_folder;
  /// A plan written with save_plan_file, to be replayed instead of planning; empty: plan.
  std::string plan_file;
  /// Where plan_run and train_model write their plan for a later replay; empty: nowhere.
  std::string save_plan_file;
  /// Where plan_run writes the training program of the largest length bucket as a problem for `snug
  /// solve`, and its planned schedule (docs/solve.md); empty: nowhere.
  std::string save_problem_file;
  std::string save_schedule_file;
  /// Fills PlanReport::curves and PlanReport::placed, for PlanReport::to_html.
  bool wants_picture = false;
  /// Fills Stage::text.
  bool wants_stage_texts = false;
  /// inspect_run's text lists every weight; otherwise layers.
  bool lists_weights = false;
};

/// Plans without training. Without data keys: the full batch at max_seq_length. Throws
/// Error{out_of_budget} with the proof.
[[nodiscard]] PlanReport plan_run(const RunConfig& config, const RunOptions& options = {});

/// What levers would change in this run (docs/levers.md): each line is what plan_run says with its
/// keys, in bytes and in time.
[[nodiscard]] std::vector<LeverPlan> plan_levers(const RunConfig& config,
                                                 const RunOptions& options = {});

enum class RunStatus : uint8_t { completed, early_stopped, interrupted };

struct TrainSummary {
  RunStatus status = RunStatus::completed;
  int64_t steps = 0;
  int64_t planned_peak_bytes = 0;
  int64_t planned_arena_bytes = 0;
  int64_t measured_arena_bytes = 0;  // highest byte touched
  int64_t measured_peak_rss_bytes = 0;
  EvalMetrics final_metrics;
  std::string weights_sha256;   // of last/model.safetensors, or of last/'s adapters
  std::string instruction_set;  // that this process trained under (snug/instruction_set.h)
  double seconds = 0;
  std::vector<Warning> warnings = {};  // of this process
  [[nodiscard]] std::string to_json() const;
};
/// Trains into config.output_dir. Throws Error{out_of_budget} before any work, Error{numeric} for a
/// loss or gradient that is not finite (the last checkpoint stays).
[[nodiscard]] TrainSummary train_model(const RunConfig& config, const RunOptions& options = {});

/// Evaluates a trained model (the folder config.model, unless the run in output_dir began with it;
/// else best/ or last/ there) on test_file, else validation_file, else held-out training rows.
[[nodiscard]] EvalMetrics evaluate_model(const RunConfig& config, const RunOptions& options = {});
[[nodiscard]] std::string to_json(const EvalMetrics& metrics);

/// What a network says of a row; which of the fields it fills is its task's (docs/files.md).
struct Prediction {
  int64_t row = 0;        // in the file (of several: in all), from 0; rows that are skipped count
  std::string file = {};  // of an image in a folder: its path below that
  std::string label;
  std::vector<std::pair<std::string, double>> scores;  // probabilities, by label
  std::vector<double> values;                          // of regression: one a target
  /// Those of the row; one for each of its words where those have labels, none for a word that was
  /// cut off.
  std::optional<std::vector<std::optional<std::string>>> labels;
  /// Why a row cannot be read (bad_rows: skip), and the field that its task would have filled,
  /// which is null.
  std::string reason = {};
  std::string lacking = {};
  [[nodiscard]] std::string to_json() const;
};
/// What the network says of the rows of test_file (else validation_file) in file order: one
/// prediction a row, also of one that is skipped.
void predict_rows(const RunConfig& config, const std::function<void(const Prediction&)>& sink,
                  const RunOptions& options = {});

/// Text about a model, about data, or both, whatever the configuration names; with is_json one JSON
/// object.
[[nodiscard]] std::string inspect_run(const RunConfig& config, bool is_json,
                                      const RunOptions& options = {});

/// Compiles a run as train_model would and tells every stage: model and data, the graph of the
/// training program of the longest rows through every pass, kernels, the plan, memory. Every graph
/// is verified and the plan is checked. Trains nothing and writes nothing into output_dir.
[[nodiscard]] Explanation explain_run(const RunConfig& config, const RunOptions& options = {});

struct VerifyCheck {
  std::string name;
  bool is_equal = false;
  std::string detail;
  bool is_skipped = false;  // it has no meaning here: the detail says why
};
struct VerifyReport {
  std::vector<VerifyCheck> checks;
  [[nodiscard]] bool is_equal() const;
  [[nodiscard]] std::string to_json() const;
};
/// Runs two updates on the user's own model and data under the chosen plan, under other plans and
/// with dead bytes poisoned, and compares weights, gradients and bytes; and one update under
/// another split, whose gradients must agree within rounding. Writes nothing into output_dir.
[[nodiscard]] VerifyReport verify_run(const RunConfig& config, const RunOptions& options = {});

/// Writes the folder of a model as it is with adapters (docs/lora.md), one weight at a time in
/// memory: W + (alpha / r) B A in place of W, in f32, with config.json and tokenizer. Throws
/// Error{bad_data} where the adapters do not belong to the model.
void merge_adapters(const std::string& model, const std::string& adapters,
                    const std::string& output, const RunOptions& options = {});

/// Writes the tensors of a file (pytorch_model.bin, an index of shards, or a folder that holds
/// either) as one file of safetensors: the same names, types and bits. Tensors that share their
/// bytes are written each for itself, which on_message says. Throws Error{bad_data}.
void convert_weights(const std::string& file, const std::string& output,
                     const RunOptions& options = {});

/// Writes a model's folder anew as transformers reads it: one model.safetensors, config.json and
/// the files of its tokenizer. `dtype` is float32, bfloat16, float16, or empty: weights stay as
/// they are stored. Throws Error{bad_config} for a folder of adapters, Error{numeric} for a weight
/// that the type cannot hold.
void export_model(const std::string& model, const std::string& output, const std::string& dtype,
                  const RunOptions& options = {});

}  // namespace snug
