// SPDX-License-Identifier: Apache-2.0
// evaluate_model and predict_rows: a trained model over a file, within the budget.
#include <algorithm>
#include <cmath>

#include "base/float_mode.h"
#include "base/numbers.h"
#include "base/stop.h"
#include "io/file.h"
#include "notices/notices.h"
#include "notices/tokenizer_warnings.h"
#include "run_model/adapter_folder.h"
#include "run_model/model_network.h"
#include "run_model/model_weights.h"
#include "run_model/other_weights.h"
#include "run_model/read_model.h"
#include "run_rows/input.h"
#include "run_rows/skipped_rows.h"
#include "run_rows/streams.h"
#include "snug/error.h"
#include "snug/memory.h"
#include "train/checkpoint.h"
#include "train/evaluation.h"
#include "train/run_recipe.h"
#include "verbs/budget_check.h"
#include "verbs/prepare.h"

namespace snug {
namespace {

constexpr auto kCopies = run_rows::CopiedStreams::Copies::are_removed;

/// True where the run in output_dir trained `model` further: then `model` is what it began with.
bool began_with_model(const RunConfig& config) {
  const train::RunFolder folder{config.output_dir};
  const std::string file = train::state_path(folder.last());
  if (config.output_dir.empty() || !io::file_exists(file)) return false;
  return RunConfig::from_json(train::load_state(folder.last()).config_json, file).model ==
         config.model;
}

bool is_trained_folder(const std::string& folder) {
  return run_model::is_model_folder(folder) || run_model::is_adapter_folder(folder);
}

/// What the run in output_dir took of what is allowed, and what evaluation computes in follows.
void take_precision_of_run(RunConfig& config) {
  const std::string last = train::RunFolder{config.output_dir}.last();
  if (config.allow.empty() || config.bf16 || config.fp16) return;
  if (!io::file_exists(train::state_path(last))) return;
  LeverKeys levers = train::load_state(last).levers;
  std::erase_if(levers,
                [](const auto& lever) { return lever.first != "bf16" && lever.first != "fp16"; });
  verbs::set_levers(levers, config);
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
    run_model::refuse_other_weights(config.model, config.output_dir);
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
  std::unique_ptr<const text::Tokenizer> tokenizer;
  std::unique_ptr<const data::RowStore> rows;
  std::vector<int32_t> buckets;
  std::optional<run_rows::SkippedRows> skipped;  // of a prediction, where there are any
  run_model::Model model;
  std::optional<Session> session;
};

/// Sets config.max_seq_length where the folder decides it.
void open_model(RunConfig& config, const RunOptions& options, Trained& trained) {
  trained.model = run_model::read_model(config);
  run_model::check_weight_files(trained.model);
  run_model::refuse_fresh_weights(trained.model);
  notices::say(options, "the model is " + config.model);
  notices::say(options, notices::wrapper_notice(trained.model));
  notices::say(options, notices::unused_notice(trained.model));
  notices::say(options, notices::kept_notice(trained.model));
  trained.tokenizer =
      run_rows::input_of(trained.model).open_trained(config, options, trained.model);
  const int64_t tokens = trained.tokenizer ? trained.tokenizer->vocab_size() : 0;
  run_model::fit_model(trained.model, config, {.vocab_size = tokens});
  if (!trained.tokenizer) return;
  notices::warn(options, notices::spare_rows_warning(trained.model, tokens));
  notices::warn(options, notices::tokenizer_warnings(*trained.tokenizer,
                                                     trained.model.task->rows->has_words));
}

void open_rows(const RunConfig& config, const RunOptions& options, const std::string& file,
               data::LabelUse use, const std::string& cache_path, Trained& trained) {
  run_rows::TrainedRows rows = run_rows::input_of(trained.model)
                                   .open_rows(config, options, trained.model,
                                              trained.tokenizer.get(), file, use, cache_path);
  trained.rows = std::move(rows.rows);
  trained.buckets = std::move(rows.buckets);
  trained.skipped = std::move(rows.skipped);
}

void open_session(const RunConfig& config, const RunOptions& options, Trained& trained) {
  const Machine machine = verbs::open_machine(config, options, verbs::BudgetUse::runs);
  const std::vector<Lengths> lengths(trained.buckets.begin(), trained.buckets.end());
  session::RunSession session{.options = train::session_options_of(train::evaluation_spec(config)),
                              .has_command_line_hints = true};
  session.options.lora = trained.model.lora;
  session.options.has_initial_values = false;
  session.options.machine = machine;
  session.options.block = options.memory;
  session.resized = [&](const Lengths& longest, int64_t batch_rows) {
    session::SessionSizes sizes{.lengths = verbs::lengths_up_to(longest.of(), lengths),
                                .batch_rows = batch_rows};
    verbs::reserve_process(config, options, trained.model,
                           {.tokenizer = trained.tokenizer.get(),
                            .rows = trained.rows->rows(),
                            .evaluated_rows = trained.rows->rows()},
                           machine.threads(), false, sizes);
    return sizes;
  };
  verbs::take_sizes(
      session.resized(lengths.back(), config.eval_batch_size > 0 ? config.eval_batch_size
                                                                 : config.train_batch_size),
      session.options);
  verbs::check_startup(resolve_memory(session.options.memory), session.options.startup_bytes,
                       options);
  const SessionPlan plan = session::plan_session(run_model::network_of(trained.model), session);
  trained.session.emplace(plan);
  (void)run_model::initialize_weights(trained.model, *trained.session);
  if (options.callbacks.on_plan) options.callbacks.on_plan(plan.report());
}

void check_scores(std::span<const float> output, int64_t row, const std::string& file) {
  if (std::ranges::all_of(output, [](float x) { return std::isfinite(x); })) return;
  throw Error(ErrorCode::numeric, file,
              "the scores of row " + std::to_string(row + 1) + " are not finite",
              "train with a lower learning_rate");
}

train::EvalPass pass_over(Trained& trained, data::Subset part, const RunOptions& options,
                          const run_rows::WorkFolder& work) {
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

/// The first of test_file and validation_file that is set, else train_file.
run_rows::FileKey evaluation_key(const RunConfig& config) {
  if (!config.test_file.empty()) return &RunConfig::test_file;
  return !config.validation_file.empty() ? &RunConfig::validation_file : &RunConfig::train_file;
}

}  // namespace

EvalMetrics evaluate_model(const RunConfig& given, const RunOptions& options) {
  const DefaultFloatMode float_mode;
  const StopScope stop({.cancel = options.cancel, .deadline = {}, .work = "evaluation"});
  RunConfig config = with_trained_model(given);
  (void)verbs::checked_budget(config, options, verbs::AboveLimit::is_refused);
  const run_rows::FileKey key = evaluation_key(config);
  if (key == &RunConfig::train_file) config.require({"train_file"});
  RunConfig scratch = config;
  scratch.output_dir.clear();  // evaluation leaves the run's folder alone
  const run_rows::WorkFolder work(scratch);
  const run_rows::CopiedStreams streams(config, options, work, {key}, kCopies);
  Trained trained;
  open_model(config, options, trained);
  open_rows(config, options, config.*key, data::LabelUse::known, work.path() + "/evaluation",
            trained);
  const data::Subset part =
      key == &RunConfig::train_file
          ? run_rows::split_of(config, *trained.rows, *trained.model.task->rows).validation
          : data::Subset::all(trained.rows->rows());
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
  notices::say(options, metrics.notes);
  notices::warn(options, metrics.warnings);
  for (const MetricValue& value : metrics.values) {
    if (!std::isfinite(value.value)) notices::say(options, value.text);  // why it is null
  }
  return metrics;
}

void predict_rows(const RunConfig& given, const std::function<void(const Prediction&)>& sink,
                  const RunOptions& options) {
  const DefaultFloatMode float_mode;
  const StopScope stop({.cancel = options.cancel, .deadline = {}, .work = "prediction"});
  RunConfig config = with_trained_model(given);
  (void)verbs::checked_budget(config, options, verbs::AboveLimit::is_refused);
  const run_rows::FileKey key = evaluation_key(config);
  if (key == &RunConfig::train_file) config.require({"test_file"});
  if (config.overlong == "drop")
    throw Error(ErrorCode::bad_config, "overlong", "drop would leave rows without a prediction",
                "set overlong to truncate, tail, head_tail or window");
  RunConfig scratch = config;
  scratch.output_dir.clear();
  const run_rows::WorkFolder work(scratch);
  const run_rows::CopiedStreams streams(config, options, work, {key}, kCopies);
  const std::string& file = config.*key;
  Trained trained;
  open_model(config, options, trained);
  open_rows(config, options, file, data::LabelUse::ignore, work.path() + "/prediction", trained);
  open_session(config, options, trained);
  const tasks::Context context = trained.model.task_context();
  const train::EvalPass pass =
      pass_over(trained, data::Subset::all(trained.rows->rows()), options, work);
  int64_t row = 0;
  const auto give_skipped = [&] {
    while (trained.skipped) {
      const std::optional<run_rows::SkippedRows::Row> skipped = trained.skipped->take(row);
      if (!skipped) return;
      Prediction none;
      none.row = row++;
      none.file = skipped->file;
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
        prediction.file = trained.rows->name(each.row);
        (*trained.model.task->predict)(context, each.columns, each.output, prediction);
        sink(prediction);
      });
  give_skipped();
  (void)trained.session->measured_arena_bytes();  // throws where a byte was written astray
}

}  // namespace snug
