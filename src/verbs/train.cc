// SPDX-License-Identifier: Apache-2.0
// train_model: from a configuration to a trained model in output_dir, resumable at every instant.
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/float_mode.h"
#include "base/stop.h"
#include "io/file.h"
#include "io/lock.h"
#include "setup/model_weights.h"
#include "setup/notices.h"
#include "snug/error.h"
#include "snug/instruction_set.h"
#include "train/frozen_source.h"
#include "train/resume.h"
#include "train/same_model.h"
#include "train/trainer.h"
#include "verbs/budget_check.h"
#include "verbs/prepare.h"

namespace snug {
namespace {

using train::RunFolder;
using train::TrainState;

void refuse_used_folder(const RunFolder& folder) {
  for (const char* name : {"last", "best", "metrics.jsonl"}) {
    if (!io::file_exists(folder.file(name)) && !io::is_folder(folder.file(name))) continue;
    throw Error(ErrorCode::bad_config, "output_dir",
                folder.path + " already holds a run ('" + name + "')",
                "add --resume to go on with it, or choose another output_dir");
  }
}

train::PlannedRun plan_for(const RunConfig& config, const RunOptions& options,
                           const train::RunSetup& setup, const Machine& machine,
                           const std::optional<TrainState>& state) {
  try {
    return train::plan_setup(config, options, setup, machine, train::micro_batch_of(config, state));
  } catch (const Error& error) {
    if (!state || error.code() != ErrorCode::out_of_budget || config.allow_new_split) throw;
    throw Error(
        ErrorCode::out_of_budget, error.where(),
        std::string(error.what()) + "\n  the checkpoint's micro-batch of " +
            std::to_string(state->micro_batch) +
            " is kept on resume; --allow_new_split permits another (the last bits will differ)");
  }
}

}  // namespace

// last/ and what takes its place, best/ and what takes its place, archives and the newest of them,
// and the rows' tokens.
int64_t bytes_of_files(const RunConfig& config, const Session& session, const train::Model& model,
                       const train::WorkFolder& work) {
  const train::CheckpointBytes each = train::bytes_of_checkpoint(session, model);
  const bool has_archives = config.save_total_limit > 0 && config.save_steps > 0;
  const int64_t whole = 2 + (has_archives ? config.save_total_limit + 1 : 0);
  int64_t bytes = whole * (each.weights + each.states) + 2 * each.weights;
  for (const std::string& name : io::list_folder(work.path())) {
    const std::string path = work.path() + "/" + name;
    if (io::file_exists(path)) bytes += io::bytes_of_file(path);
  }
  return bytes;
}

TrainSummary train_model(const RunConfig& given, const RunOptions& given_options) {
  const DefaultFloatMode float_mode;
  const auto start = std::chrono::steady_clock::now();
  std::vector<Warning> warnings;
  const RunOptions options = train::gathering(given_options, warnings);
  RunConfig config = given;
  config.require({"model", "train_file", "output_dir"});
  (void)train::checked_budget(config, options, train::AboveLimit::is_refused);
  const RunFolder folder{config.output_dir};
  io::make_folders(folder.path);
  const io::FolderLock lock(folder.path);
  train::say(options, lock.notice());
  std::optional<TrainState> state = train::read_checkpoint(folder, options);
  if (!config.resume) refuse_used_folder(folder);
  train::refuse_incomplete(folder);
  if (state) train::check_best(folder, options, *state);
  RunConfig before = config;
  std::vector<train::KeyChange> changes;
  if (state) {
    train::check_levers(state->levers, train::state_path(folder.last()));
    train::set_levers(state->levers, config);  // a resumed run keeps its own
    before = RunConfig::from_json(state->config_json, train::state_path(folder.last()));
    if (config.task == "auto") config.task = before.task;  // what the labels looked like then
    changes = train::changed_keys(before, config);
  }

  const train::WorkFolder work(config);
  const Machine machine = train::open_machine(config, options);
  train::RunSetup setup =
      train::open_setup(config, options, work, state ? folder.last() : std::string());
  setup.needs_base = true;
  train::refuse_without_base(setup.model);
  const train::RunData& data = *setup.data;
  config.task = *setup.model.task->name;  // the checkpoint says it
  std::optional<int64_t> good_step;
  const bool was_finished = state && state->is_finished;
  bool trains_nothing = false;
  if (state && !state->rows_hash) {
    train::say(options, folder.last() +
                            " was written by an older version of Snug: whether its rows are those "
                            "of " +
                            config.train_file + " is not checked");
  }
  if (state) {
    train::check_state(before, config, data, folder, *state);
    train::require_same_model(setup.model, folder.last(), before, config);
    state->is_finished = train::is_at_end(*state, before, config, setup.batches_per_epoch);
    trains_nothing = was_finished && state->is_finished;
    train::report_changes(changes, *state, config, setup.batches_per_epoch, options);
    good_step = state->step;
  } else if (!setup.model.weights_folder.empty()) {
    train::check_weight_files(setup.model);
  }
  train::refuse_foreign_archives(folder, config, good_step.value_or(0),
                                 train::total_steps(config, setup.batches_per_epoch));
  const train::TakenLevers taken = state ? train::TakenLevers{.keys = state->levers}
                                         : train::take_levers(config, options, machine, setup);
  if (state && !taken.keys.empty()) train::say(options, "levers taken: " + to_words(taken.keys));
  train::PlannedRun planned = plan_for(config, options, setup, machine, state);
  train::note_levers(taken, planned.report);
  // Until the first update there is nothing to save.
  std::optional<StopScope> before_updates(
      StopConditions{.cancel = options.cancel, .deadline = {}, .work = "training"});
  Session session(planned.plan);
  std::string base_sha256;
  train::require_frozen_sources(setup.model, session);
  if (io::lies_in_memory(folder.path))
    train::check_files_in_memory({.key = "output_dir",
                                  .folder = folder.path,
                                  .bytes = bytes_of_files(config, session, setup.model, work),
                                  .process_bytes = planned.report.planned_peak_bytes});
  if (!state || setup.model.lora.is_on() || config.frozen_dtype != "float32")
    base_sha256 = train::initialize_weights(setup.model, session);
  if (state && before.loss_scale == config.loss_scale)
    train::require_kind_of_scale(*state, session, folder);
  if (state) train::load_checkpoint(folder.last(), session, setup.model, base_sha256);
  // Weights that cannot be trained have ended the run by now, so a plan that is shown begins.
  if (options.callbacks.on_plan) options.callbacks.on_plan(planned.report);
  io::replace_file(folder.file("plan.json"), planned.report.to_json() + "\n");
  if (state) {
    train::say(options, "resuming after update " + std::to_string(state->step));
    if (!trains_nothing) train::say(options, instruction_set_notice(state->instruction_set));
  } else {
    state.emplace();
  }
  if (!trains_nothing) state->instruction_set = instruction_set();
  train::note_data(data, *state);
  state->micro_batch = planned.report.micro_batch;
  state->levers = taken.keys;
  state->config_json = config.to_json();

  data::TrainSampler sampler = train::train_sampler(config, data);
  train::FeedContext feed{.rows = data.train.get(),
                          .task = setup.model.task,
                          .pad_id = data.pad_id(),
                          .longest = data.buckets.back()};
  train::refuse_weightless_rows(feed, data.train_part, config.weight_column);
  const std::vector<double> class_weights =
      train::class_weights_of(config, feed, data.train_part, setup.model.labels);
  feed.class_weights = class_weights;
  train::say(options, train::class_weight_notice(class_weights, setup.model.labels));
  train::Training training;
  training.config = &config;
  training.options = &options;
  training.session = &session;
  training.model = &setup.model;
  training.tokenizer = data.tokenizer.get();
  training.base_sha256 = base_sha256;
  training.feed = feed;
  training.sampler = &sampler;
  training.total_steps = train::total_steps(config, sampler.batches_per_epoch());
  training.validation.session = &session;
  training.validation.feed = {
      .rows = &data.validation_rows(), .task = feed.task, .pad_id = feed.pad_id};
  training.validation.part = data.validation_part;
  training.validation.buckets = data.buckets;
  training.validation.cancel = options.cancel;
  training.validation.waiting_file = work.path() + "/evaluation.outputs";
  training.folder = folder;
  if (options.callbacks.on_progress) {
    training.validation.on_progress = [&](int64_t done, int64_t total) {
      options.callbacks.on_progress({"evaluating", done, total});
    };
  }
  training.changes = changes;
  training.plan = &planned.report;
  before_updates.reset();
  const train::TrainOutcome outcome = train::run_training(training, *state, good_step);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  TrainSummary summary{.status = outcome.status,
                       .steps = train::load_state(folder.last()).step,
                       .planned_peak_bytes = planned.report.planned_peak_bytes,
                       .planned_arena_bytes = planned.report.arena_bytes,
                       .measured_arena_bytes = session.measured_arena_bytes(),
                       .measured_peak_rss_bytes = peak_rss_bytes(),
                       .final_metrics = outcome.final_metrics,
                       .weights_sha256 = outcome.weights_sha256,
                       .instruction_set = planned.report.instruction_set,
                       .seconds = seconds.count(),
                       .warnings = std::move(warnings)};
  // Resuming a finished run trains nothing: what was measured while it trained stays.
  const bool has_trained = !trains_nothing || !io::file_exists(folder.file("summary.json"));
  if (summary.status != RunStatus::interrupted && has_trained) {
    io::replace_file(folder.file("summary.json"), summary.to_json() + "\n");
  }
  return summary;
}

}  // namespace snug
