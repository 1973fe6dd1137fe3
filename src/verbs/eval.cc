// SPDX-License-Identifier: Apache-2.0
// evaluate_model and predict_rows: a trained model over a file, within the budget.
#include <algorithm>
#include <cmath>

#include "base/float_mode.h"
#include "base/numbers.h"
#include "base/stop.h"
#include "io/file.h"
#include "setup/adapter_folder.h"
#include "setup/input.h"
#include "setup/model_network.h"
#include "setup/model_weights.h"
#include "setup/notices.h"
#include "setup/other_weights.h"
#include "setup/read_model.h"
#include "setup/run_recipe.h"
#include "setup/skipped_rows.h"
#include "setup/tokenizer_warnings.h"
#include "snug/error.h"
#include "snug/memory.h"
#include "train/checkpoint.h"
#include "train/evaluation.h"
#include "verbs/budget_check.h"
#include "verbs/prepare.h"

namespace snug {
namespace {

/// True where the run in output_dir trained `model` further: then `model` is what it began with.
bool began_with_model(const RunConfig& config) {
  const train::RunFolder folder{config.output_dir};
  const std::string file = train::state_path(folder.last());
  if (config.output_dir.empty() || !io::file_exists(file)) return false;
  return RunConfig::from_json(train::load_state(folder.last()).config_json, file).model ==
         config.model;
}

bool is_trained_folder(const std::string& folder) {
  return train::is_model_folder(folder) || train::is_adapter_folder(folder);
}

/// What the run in output_dir took of what is allowed, and what evaluation computes in follows.
void take_precision_of_run(RunConfig& config) {
  const std::string last = train::RunFolder{config.output_dir}.last();
  if (config.allow.empty() || config.bf16 || config.fp16) return;
  if (!io::file_exists(train::state_path(last))) return;
  LeverKeys levers = train::load_state(last).levers;
  std::erase_if(levers,
                [](const auto& lever) { return lever.first != "bf16" && lever.first != "fp16"; });
  train::set_levers(levers, config);
}

/// The configuration with `model` set to the trained folder, whose head and adapters stay.
RunConfig with_trained_model(const RunConfig& config) {
  RunConfig out = config;
  out.fresh_head = false;
  out.lora = {};
  out.reinit_layers = 0;
  out.resize_embeddings = false;
  if (is_trained_folder(config.model) && !began_with_model(config)) return out;
  out.lora_adapter.clear();
  if (!is_trained_folder(config.model))
    train::refuse_other_weights(config.model, config.output_dir);
  for (const char* name : {"best", "last"}) {
    const std::string folder = config.output_dir + "/" + name;
    if (config.output_dir.empty() || !is_trained_folder(folder)) continue;
    out.model = folder;
    take_precision_of_run(out);
    return out;
  }
  throw Error(ErrorCode::bad_config, "model",
              config.output_dir.empty()
                  ? "'" + config.model + "' is not a folder with trained weights"
                  : config.output_dir + " holds no trained model (best/ or last/)",
              "train first, or set model to a trained folder");
}

/// A trained model, its tokenizer (none for images), rows and the run that evaluates it.
struct Trained {
  std::unique_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<const data::RowStore> rows;
  std::vector<int32_t> buckets;
  std::optional<train::SkippedRows> skipped;  // of a prediction, where there are any
  train::Model model;
  std::optional<Session> session;
};

/// Sets config.max_seq_length where the folder decides it.
void open_model(RunConfig& config, const RunOptions& options, Trained& trained) {
  trained.model = train::read_model(config);
  train::check_weight_files(trained.model);
  train::refuse_fresh_weights(trained.model);
  train::say(options, "the model is " + config.model);
  train::say(options, train::wrapper_notice(trained.model));
  train::say(options, train::unused_notice(trained.model));
  train::say(options, train::kept_notice(trained.model));
  trained.tokenizer = train::input_of(trained.model).open_trained(config, options, trained.model);
  const int64_t tokens = trained.tokenizer ? trained.tokenizer->vocab_size() : 0;
  train::fit_model(trained.model, config, {.vocab_size = tokens});
  if (!trained.tokenizer) return;
  train::warn(options, train::spare_rows_warning(trained.model, tokens));
  train::warn(options,
              train::tokenizer_warnings(*trained.tokenizer, trained.model.task->rows->has_words));
}

void open_rows(const RunConfig& config, const RunOptions& options, const std::string& file,
               data::LabelUse use, const std::string& cache_path, Trained& trained) {
  train::TrainedRows rows = train::input_of(trained.model)
                                .open_rows(config, options, trained.model, trained.tokenizer.get(),
                                           file, use, cache_path);
  trained.rows = std::move(rows.rows);
  trained.buckets = std::move(rows.buckets);
  if (use != data::LabelUse::ignore || rows.skipped == 0) return;
  trained.skipped.emplace(
      file, train::predicted_schema(config, options, *trained.model.task->rows, *trained.tokenizer),
      cache_path + ".skipped");
}

void open_session(const RunConfig& config, const RunOptions& options, Trained& trained) {
  const Machine machine = train::open_machine(config, options);
  const std::vector<Lengths> lengths(trained.buckets.begin(), trained.buckets.end());
  SessionOptions session{
      .memory = config.memory,
      .micro_batch_size = config.eval_batch_size,
      .freeze = config.frozen_dtype == "float32" ? std::vector<std::string>() : config.freeze,
      .lora = trained.model.lora,
      .only_evaluation = true,
      .frozen_dtype = config.frozen_dtype,
      .weight_dtype = config.weight_dtype,
      .seed = config.seed,
      .has_initial_values = false,
      .machine = machine,
      .block = options.memory,
      .has_command_line_hints = true};
  train::take_precision(config, session);
  session.resized = [&](const Lengths& longest, int64_t batch_rows) {
    SessionSizes sizes{.lengths = train::lengths_up_to(longest.of(), lengths),
                       .batch_rows = batch_rows};
    train::reserve_process(config, options, trained.model,
                           {.tokenizer = trained.tokenizer.get(),
                            .rows = trained.rows->rows(),
                            .evaluated_rows = trained.rows->rows()},
                           machine.threads(), false, sizes);
    return sizes;
  };
  train::take_sizes(
      session.resized(lengths.back(), config.eval_batch_size > 0 ? config.eval_batch_size
                                                                 : config.train_batch_size),
      session);
  train::check_startup(resolve_memory(session.memory), session.startup_bytes, options);
  const SessionPlan plan(train::network_of(trained.model), session);
  trained.session.emplace(plan);
  (void)train::initialize_weights(trained.model, *trained.session);
  if (options.callbacks.on_plan) options.callbacks.on_plan(plan.report());
}

void check_scores(std::span<const float> output, int64_t row, const std::string& file) {
  if (std::ranges::all_of(output, [](float x) { return std::isfinite(x); })) return;
  throw Error(ErrorCode::numeric, file,
              "the scores of row " + std::to_string(row + 1) + " are not finite",
              "train with a lower learning_rate");
}

train::EvalPass pass_over(Trained& trained, data::Part part, const RunOptions& options,
                          const train::WorkFolder& work) {
  train::EvalPass pass{.session = &*trained.session,
                       .feed = {.rows = trained.rows.get(),
                                .task = trained.model.task,
                                .pad_id = trained.tokenizer ? trained.tokenizer->pad_id() : 0},
                       .part = part,
                       .buckets = trained.buckets,
                       .cancel = options.cancel,
                       .on_progress = {},
                       .waiting_file = work.path() + "/evaluation.outputs"};
  if (options.callbacks.on_progress) {
    pass.on_progress = [&options](int64_t done, int64_t total) {
      options.callbacks.on_progress({"evaluating", done, total});
    };
  }
  return pass;
}

/// The first of test_file and validation_file that is set; empty where none is.
std::string evaluation_file(const RunConfig& config) {
  return !config.test_file.empty() ? config.test_file : config.validation_file;
}

}  // namespace

EvalMetrics evaluate_model(const RunConfig& given, const RunOptions& options) {
  const DefaultFloatMode float_mode;
  const StopScope stop({.cancel = options.cancel, .deadline = {}, .work = "evaluation"});
  RunConfig config = with_trained_model(given);
  (void)train::checked_budget(config, options, train::AboveLimit::is_refused);
  const std::string file = evaluation_file(config);
  if (file.empty()) config.require({"train_file"});
  RunConfig scratch = config;
  scratch.output_dir.clear();  // evaluation leaves the run's folder alone
  const train::WorkFolder work(scratch);
  Trained trained;
  open_model(config, options, trained);
  open_rows(config, options, file.empty() ? config.train_file : file, data::LabelUse::known,
            work.path() + "/evaluation.tokens", trained);
  const data::Part part =
      file.empty() ? train::split_of(config, *trained.rows, *trained.model.task->rows).validation
                   : data::Part::all(trained.rows->rows());
  open_session(config, options, trained);
  EvalMetrics metrics =
      train::evaluate_part(pass_over(trained, part, options, work), trained.model.task_context());
  (void)trained.session->measured_arena_bytes();  // throws where a byte was written astray
  if (!std::isfinite(metrics.loss)) {
    throw Error(ErrorCode::numeric, config.model,
                "the loss is not finite (" + number_text(metrics.loss) +
                    "): the weights are finite, what the model computes from them is not",
                "train with a lower learning_rate");
  }
  train::say(options, metrics.notes);
  train::warn(options, metrics.warnings);
  for (const MetricValue& value : metrics.values) {
    if (!std::isfinite(value.value)) train::say(options, value.text);  // why it is null
  }
  return metrics;
}

void predict_rows(const RunConfig& given, const std::function<void(const Prediction&)>& sink,
                  const RunOptions& options) {
  const DefaultFloatMode float_mode;
  const StopScope stop({.cancel = options.cancel, .deadline = {}, .work = "prediction"});
  RunConfig config = with_trained_model(given);
  (void)train::checked_budget(config, options, train::AboveLimit::is_refused);
  const std::string file = evaluation_file(config);
  if (file.empty()) config.require({"test_file"});
  if (config.overlong == "drop")
    throw Error(ErrorCode::bad_config, "overlong", "drop would leave rows without a prediction",
                "set overlong to truncate, head_tail or window");
  RunConfig scratch = config;
  scratch.output_dir.clear();
  const train::WorkFolder work(scratch);
  Trained trained;
  open_model(config, options, trained);
  open_rows(config, options, file, data::LabelUse::ignore, work.path() + "/prediction.tokens",
            trained);
  open_session(config, options, trained);
  const tasks::Context context = trained.model.task_context();
  const train::EvalPass pass =
      pass_over(trained, data::Part::all(trained.rows->rows()), options, work);
  int64_t row = 0;
  const auto give_skipped = [&] {
    while (trained.skipped) {
      const std::optional<train::SkippedRows::Row> skipped = trained.skipped->take(row);
      if (!skipped) return;
      Prediction none;
      none.row = row++;
      none.reason = skipped->reason;
      none.lacking = *trained.model.task->predicted;
      sink(none);
    }
  };
  train::for_each_text(
      pass, static_cast<int64_t>(context.labels.size()), [&](const train::EvaluatedRow& each) {
        give_skipped();
        check_scores(each.output, row, file);
        Prediction prediction;
        prediction.row = row++;
        (*trained.model.task->predict)(context, each.columns, each.output, prediction);
        sink(prediction);
      });
  give_skipped();
  (void)trained.session->measured_arena_bytes();  // throws where a byte was written astray
}

}  // namespace snug
