// SPDX-License-Identifier: Apache-2.0
// train_model: from a configuration to a trained model in output_dir, resumable at every instant.
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/float_mode.h"
#include "base/stop.h"
#include "io/file.h"
#include "io/lock.h"
#include "notices/notices.h"
#include "run_model/model_weights.h"
#include "snug/instruction_set.h"
#include "train/frozen_source.h"
#include "train/resume.h"
#include "train/trainer.h"
#include "verbs/budget_check.h"
#include "verbs/prepare.h"
#include "verbs/run_start.h"

namespace snug {

using verbs::RunStart;

namespace {

using train::RunFolder;
using train::RunState;

// last/ and what takes its place, best/ and what takes its place, archives and the newest of them,
// and the rows' tokens.
int64_t bytes_of_files(const RunConfig& config, const Session& session,
                       const run_model::Model& model, const run_rows::WorkFolder& work) {
  const train::CheckpointBytes each = train::bytes_of_checkpoint(session, model);
  const bool has_archives = config.save_total_limit > 0 && !config.save_steps.is_at_end_only();
  const int64_t whole = 2 + (has_archives ? config.save_total_limit + 1 : 0);
  int64_t bytes = whole * (each.weights + each.states) + 2 * each.weights;
  for (const std::string& name : io::list_folder(work.path())) {
    const std::string path = work.path() + "/" + name;
    if (io::file_exists(path)) bytes += io::bytes_of_file(path);
  }
  return bytes;
}

// Until the first update there is nothing to save.
StopConditions until_first_update(const RunOptions& options) {
  return {.cancel = options.cancel, .deadline = {}, .work = "training"};
}

// What a run trains with. The plan refers to machine and setup, so nothing of it moves.
struct ReadyRun {
  std::optional<Machine> machine;
  verbs::RunSetup setup;
  std::optional<verbs::ReportedPlan> planned;
  LeverKeys levers;
  std::optional<Session> session;
  std::string base_sha256;
};

void plan_run(RunConfig& config, const RunOptions& options, const run_rows::WorkFolder& work,
              RunStart& start, ReadyRun& run) {
  const Machine& machine =
      run.machine.emplace(verbs::open_machine(config, options, verbs::BudgetUse::runs));
  run.setup = verbs::open_setup(config, options, work, start.checkpoint());
  run.setup.needs_base = true;
  verbs::refuse_without_base(run.setup.model);
  config.task = *run.setup.model.task->name;  // the checkpoint says it
  start.check(config, run.setup);
  const verbs::TakenLevers taken = start.levers(config, machine, run.setup);
  run.levers = taken.keys;
  run.planned = start.plan(config, run.setup, machine);
  verbs::note_levers(taken, run.planned->report);
}

void open_session(const RunConfig& config, const RunOptions& options, const RunFolder& folder,
                  const run_rows::WorkFolder& work, const RunStart& start, ReadyRun& run) {
  const StopScope stop(until_first_update(options));
  const run_model::Model& model = run.setup.model;
  Session& session = run.session.emplace(run.planned->plan);
  train::require_frozen_sources(model, session);
  if (io::lies_in_memory(folder.path))
    verbs::check_files_in_memory({.key = "output_dir",
                                  .folder = folder.path,
                                  .bytes = bytes_of_files(config, session, model, work),
                                  .process_bytes = run.planned->report.planned_peak_bytes,
                                  .smallest_bytes = run.planned->report.smallest_budget_bytes});
  run.base_sha256 = start.load(config, model, session);
  // Weights that cannot be trained have ended the run by now, so a plan that is shown begins.
  if (options.callbacks.on_plan) options.callbacks.on_plan(run.planned->report);
  io::replace_file(folder.file("plan.json"), run.planned->report.to_json() + "\n");
  start.report();
}

RunState first_state(const RunConfig& config, const RunStart& start, const ReadyRun& run) {
  RunState state = start.state();
  if (!start.trains_nothing()) state.instruction_set = instruction_set();
  train::note_data(*run.setup.data, state);
  state.micro_batch = run.planned->report.micro_batch;
  state.levers = run.levers;
  state.config_json = config.to_json();
  return state;
}

train::EvalPass validation_of(const RunOptions& options, const run_rows::WorkFolder& work,
                              ReadyRun& run) {
  const run_rows::RunData& data = *run.setup.data;
  train::EvalPass pass;
  pass.session = &*run.session;
  pass.feed = {
      .rows = &data.validation_rows(), .task = run.setup.model.task, .pad_id = data.pad_id()};
  pass.part = data.validation_part;
  pass.buckets = data.buckets;
  pass.cancel = options.cancel;
  pass.waiting_file = work.path() + "/evaluation.outputs";
  if (options.callbacks.on_progress) {
    pass.on_progress = [&options](int64_t done, int64_t total) {
      options.callbacks.on_progress({"evaluating", done, total});
    };
  }
  return pass;
}

train::TrainOutcome train_until_end(const RunConfig& config, const RunOptions& options,
                                    const RunFolder& folder, const run_rows::WorkFolder& work,
                                    const RunStart& start, ReadyRun& run) {
  const run_rows::RunData& data = *run.setup.data;
  const run_model::Model& model = run.setup.model;
  if (run.planned->report.held_rows_bytes > 0) data.train->hold_in_memory();
  data::TrainSampler sampler = run_rows::train_sampler(config, data);
  train::FeedContext feed{.rows = data.train.get(),
                          .task = model.task,
                          .pad_id = data.pad_id(),
                          .longest = data.buckets.back()};
  std::vector<double> class_weights;
  {
    const StopScope stop(until_first_update(options));
    train::refuse_weightless_rows(feed, data.train_part, config.weight_column);
    class_weights = train::class_weights_of(config, feed, data.train_part, model.labels);
  }
  feed.class_weights = class_weights;
  notices::say(options, train::class_weight_notice(class_weights, model.labels));
  train::TrainingContext training{
      .config = &config,
      .options = &options,
      .session = &*run.session,
      .model = &model,
      .tokenizer = data.tokenizer.get(),
      .base_sha256 = run.base_sha256,
      .feed = feed,
      .sampler = &sampler,
      .total_steps = train::total_steps(config, sampler.batches_per_epoch()),
      .validation = validation_of(options, work, run),
      .folder = folder,
      .changes = start.changes(),
      .plan = &run.planned->report};
  return train::run_training(training, first_state(config, start, run), start.good_step());
}

}  // namespace

TrainSummary train_model(const RunConfig& given, const RunOptions& given_options) {
  const DefaultFloatMode float_mode;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Warning> warnings;
  const RunOptions options = notices::gathering(given_options, warnings);
  RunConfig config = given;
  config.require({"model", "train_file", "output_dir"});
  (void)verbs::checked_budget(config, options, verbs::AboveLimit::is_refused);
  const RunFolder folder{io::absolute_path(config.output_dir)};  // callbacks may change to another
  io::make_folders(folder.path);
  const io::FolderLock lock(folder.path);
  notices::say(options, lock.notice());
  const run_rows::WorkFolder work(config);
  const std::unique_ptr<RunStart> start = verbs::open_start(folder, work, config, options);
  ReadyRun run;
  plan_run(config, options, work, *start, run);
  open_session(config, options, folder, work, *start, run);
  const train::TrainOutcome outcome = train_until_end(config, options, folder, work, *start, run);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const PlanReport& report = run.planned->report;
  TrainSummary summary{.status = outcome.status,
                       .steps = train::load_state(folder.last()).step,
                       .planned_peak_bytes = report.planned_peak_bytes,
                       .planned_arena_bytes = report.arena_bytes,
                       .measured_arena_bytes = run.session->measured_arena_bytes(),
                       .measured_peak_rss_bytes = peak_rss_bytes(),
                       .final_metrics = outcome.final_metrics,
                       .weights_sha256 = outcome.weights_sha256,
                       .instruction_set = report.instruction_set,
                       .seconds = seconds.count(),
                       .warnings = std::move(warnings)};
  // Resuming a finished run trains nothing: what was measured while it trained stays.
  const bool has_trained =
      !start->trains_nothing() || !io::file_exists(folder.file("summary.json"));
  if (summary.status != RunStatus::interrupted && has_trained) {
    io::replace_file(folder.file("summary.json"), summary.to_json() + "\n");
  }
  return summary;
}

}  // namespace snug
