// SPDX-License-Identifier: Apache-2.0
#include "verbs/prepare.h"

#include <malloc.h>

#include <algorithm>

#include "base/stop.h"
#include "base/units.h"
#include "fit/saved_plan.h"
#include "io/file.h"
#include "setup/input.h"
#include "setup/model_network.h"
#include "setup/notices.h"
#include "setup/process_memory.h"
#include "setup/read_model.h"
#include "solve/remat_write.h"
#include "text/vocabulary.h"
#include "train/trainer.h"

namespace snug::train {
namespace {

constexpr std::chrono::seconds kQuietPlanning{2};  // a shorter one shows no progress

// A pattern that matches no weight is refused before the data is read.
void check_frozen_names(const RunConfig& config, const Model& model) {
  if (config.freeze.empty()) return;
  std::vector<std::string> names;
  for (const Value& value : parameters_of(network_of(model))) names.push_back(value.name);
  (void)trainable_names(names, config.freeze);
}

// The full batch at the greatest length. The tokenizer is read if training would read it: one that
// cannot be read is to be known now, and its size decides the embedding of a fresh model.
void open_without_data(const RunConfig& config, const RunOptions& options,
                       const std::string& tokenizer_folder, RunSetup& setup) {
  const Input& input = input_of(setup.model);
  setup.lengths = {input.longest(config, setup.model)};
  say(options, warmup_warning(config, config.max_steps));
  const auto tokenizer = input.open_tokenizer_alone(config, options, setup.model, tokenizer_folder);
  if (tokenizer == nullptr) return;
  const int64_t tokens = tokenizer->vocab_size();
  fit_model(setup.model, config, {.vocab_size = tokens});
  say(options, spare_rows_warning(setup.model, tokens));
}

}  // namespace

RunSetup open_setup(const RunConfig& config, const RunOptions& options, const WorkFolder& work,
                    const std::string& checkpoint) {
  const StopScope stop({.cancel = options.cancel, .deadline = {}});
  RunSetup setup;
  const bool reads_labels = !config.train_file.empty();
  setup.model = read_model(config,
                           reads_labels
                           ? [&]() -> const tasks::Task& { return task_of_labels(config, options); }
                           : TaskOfLabels());
  if (!checkpoint.empty()) input_of(setup.model).read_folder(checkpoint, setup.model);
  fit_model(setup.model, config, {});
  check_frozen_names(config, setup.model);
  const bool is_resumed = !checkpoint.empty();
  if (!is_resumed) say(options, model_notices(setup.model));
  if (!is_resumed) say(options, input_of(setup.model).notices(setup.model));
  if (config.train_file.empty()) {
    open_without_data(config, options, checkpoint, setup);
    return setup;
  }
  setup.data.emplace(open_training_data(config, options, setup.model, checkpoint, work));
  const WordPieceTokenizer* tokenizer = setup.data->tokenizer.get();
  fit_model(setup.model, config,
            {.vocab_size = tokenizer != nullptr ? tokenizer->vocab_size() : 0,
             .labels = setup.data->labels.names(),
             .num_labels = setup.data->num_labels});
  setup.lengths.assign(setup.data->buckets.begin(), setup.data->buckets.end());
  const data::TrainSampler sampler = train_sampler(config, *setup.data);
  setup.histogram = sampler.bucket_histogram();
  setup.batches_per_epoch = sampler.batches_per_epoch();
  if (tokenizer != nullptr) say(options, spare_rows_warning(setup.model, tokenizer->vocab_size()));
  say(options, warmup_warning(config, total_steps(config, setup.batches_per_epoch)));
  return setup;
}

std::vector<Lengths> lengths_up_to(int64_t max_length, const std::vector<Lengths>& lengths) {
  if (max_length >= lengths.back().of()) return lengths;
  const auto most = static_cast<int32_t>(max_length);
  const std::vector<int32_t> buckets = data::bucket_lengths(most, most);
  return {buckets.begin(), buckets.end()};
}

void reserve_process(const RunConfig& config, const RunOptions& options, const Model& model,
                     const ProcessFacts& facts, int threads, RunPlanRequest& request) {
  if (!options.budgets_whole_process) return;
  ProcessNeeds needs =
      process_needs(config, model, facts.tokenizer != nullptr ? facts.tokenizer->token_bytes() : 0,
                    request.lengths, request.global_batch, facts.rows);
  needs.metric_bytes = (*model.task->bytes_per_row)(model.traits.num_labels) * facts.evaluated_rows;
  needs.threads = threads;
  needs.trains = request.trains;
  needs.learns_vocabulary = facts.learns_vocabulary;
  request.process_bytes = process_reservation(needs);
  request.startup_bytes = startup_reservation(needs);
}

RunPlanRequest plan_request(const RunConfig& config, const RunOptions& options,
                            const RunSetup& setup, const Machine& machine, int64_t micro_batch) {
  RunPlanRequest request{.network = network_of(setup.model),
                         .recipe = recipe_of(config),
                         .global_batch = config.train_batch_size,
                         .micro_batch = micro_batch,
                         .lengths = setup.lengths,
                         .strategy = config.recompute.strategy,
                         .allow_coupled_split = config.allow_batch_norm_split,
                         .budget_bytes = resolve_memory(config.memory),
                         .process_bytes = 0,
                         .startup_bytes = 0,
                         .trains = true};
  request.resized = [&](const RunPlanRequest& from, const Lengths& longest, int64_t global_batch) {
    RunPlanRequest to = from;
    to.lengths = setup.data || longest.holds(setup.lengths.back())
                     ? lengths_up_to(longest.of(), setup.lengths)
                     : std::vector{longest};
    to.global_batch = global_batch;
    ProcessFacts facts;
    if (setup.data) {
      facts.learns_vocabulary = setup.data->learns_vocabulary;
      facts.tokenizer = setup.data->tokenizer.get();
      facts.rows = setup.data->train->rows();
      facts.evaluated_rows = setup.data->validation_part.size();
    }
    reserve_process(config, options, setup.model, facts, machine.threads, to);
    return to;
  };
  request = request.resized(request, setup.lengths.back(), config.train_batch_size);
  return request;
}

namespace {

/// The largest training program as the files of `snug solve`, and which program that is.
void write_for_solve(const RunPlan& run, const RunOptions& options) {
  if (options.save_problem_file.empty() && options.save_schedule_file.empty()) return;
  const PlannedProgram& program = run.train.back();
  const plan::Problem& problem = program.lowered.problem;
  if (!options.save_problem_file.empty())
    io::replace_file(options.save_problem_file, solve::remat_problem_json(problem));
  if (!options.save_schedule_file.empty()) {
    std::vector<plan::OpId> schedule;
    for (const plan::Step& step : program.plan.steps) schedule.push_back(step.op);
    io::replace_file(options.save_schedule_file, solve::remat_schedule_json(problem, schedule));
  }
  const size_t programs =
      run.train.size() + run.eval.size() + (run.prologue ? 1 : 0) + (run.update ? 1 : 0);
  const std::string size = to_string(program.length);
  const std::string rows = run.report.image_size > 0
                               ? " images of " + size + " x " + size + " pixels"
                               : " rows of " + size + " tokens";
  say(options, "saved for snug solve: forward and backward of " + std::to_string(run.micro_batch) +
                   rows + ", " + (run.update ? "without the update" : "with the update") +
                   ", one of the " + std::to_string(programs) + " programs of this run");
}

}  // namespace

RunPlan plan_setup(const RunConfig& config, const RunOptions& options, const RunSetup& setup,
                   const Machine& machine, int64_t micro_batch) {
  const StopScope stop({.cancel = options.cancel, .deadline = {}});
  RunPlanRequest request = plan_request(config, options, setup, machine, micro_batch);
  request.wants_picture = options.wants_picture;
  request.on_progress = [&options, begin = StopClock::now()](int64_t done, int64_t total,
                                                             const char* phase) {
    if (options.callbacks.on_progress && StopClock::now() - begin > kQuietPlanning)
      options.callbacks.on_progress({"planning", done, total, phase});
  };
  std::optional<SavedPlan> saved;
  if (!options.plan_file.empty()) {
    saved = read_saved_plan(options.plan_file);
    if (micro_batch > 0 && micro_batch != saved->micro_batch)
      throw Error(ErrorCode::bad_config, options.plan_file,
                  "the saved plan has micro-batches of " + std::to_string(saved->micro_batch) +
                      ", this run needs " + std::to_string(micro_batch));
    request.saved = &*saved;
    request.micro_batch = saved->micro_batch;
  }
  RunPlan run = make_run_plan(request, *machine.backend);
  PlanReport& report = run.report;
  report.model = config.model;
  report.image_size = setup.model.traits.image_size;
  if (!options.save_plan_file.empty()) write_saved_plan(options.save_plan_file, run);
  write_for_solve(run, options);
  if (setup.histogram.empty()) return run;
  report.updates = total_steps(config, setup.batches_per_epoch);
  double epoch_seconds = 0;
  for (size_t i = 0; i < run.train.size(); ++i) {
    const double update = static_cast<double>(run.accumulation_steps) * run.train[i].plan.seconds +
                          (run.prologue ? run.prologue->plan.seconds : 0.0) +
                          (run.update ? run.update->plan.seconds : 0.0);
    epoch_seconds += update * static_cast<double>(setup.histogram[i].batches);
  }
  report.run_seconds = epoch_seconds * static_cast<double>(report.updates) /
                       static_cast<double>(std::max<int64_t>(setup.batches_per_epoch, 1));
  return run;
}

void release_heap(const RunOptions& options) {
  if (options.budgets_whole_process) malloc_trim(0);
}

}  // namespace snug::train
