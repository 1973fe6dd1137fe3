// SPDX-License-Identifier: Apache-2.0
#include "verbs/prepare.h"

#include <algorithm>

#include "base/stop.h"
#include "base/units.h"
#include "notices/data_notices.h"
#include "notices/notices.h"
#include "notices/tokenizer_warnings.h"
#include "run_memory/process_memory.h"
#include "run_model/model_network.h"
#include "run_model/read_model.h"
#include "run_model/row_kind.h"
#include "run_rows/input.h"
#include "snug/error.h"
#include "snug/instruction_set.h"
#include "snug/memory.h"
#include "text/vocabulary.h"
#include "train/feed.h"
#include "train/run_recipe.h"
#include "train/trainer.h"
#include "verbs/budget_check.h"

namespace snug::verbs {

using session::RunSession;
using session::SessionSizes;

namespace {

constexpr std::chrono::seconds kQuietPlanning{2};  // a shorter one shows no progress

// The full batch at the greatest length. The tokenizer is read if training would read it: one that
// cannot be read is to be known now, and its size decides the embedding of a fresh model.
void open_without_data(const RunConfig& config, const RunOptions& options,
                       const std::string& tokenizer_folder, RunSetup& setup) {
  const run_rows::Input& input = run_rows::input_of(setup.model);
  setup.lengths = {run_model::row_kind_of(setup.model).longest(config, setup.model)};
  notices::warn(options, notices::warmup_warning(config, config.max_steps));
  const auto tokenizer = input.open_tokenizer_alone(config, options, setup.model, tokenizer_folder);
  if (tokenizer == nullptr) return;
  const int64_t tokens = tokenizer->vocab_size();
  run_model::fit_model(setup.model, config,
                       {.vocab_size = tokens, .pad_token_id = tokenizer->pad_id()});
  notices::warn(options, notices::spare_rows_warning(setup.model, tokens));
  notices::warn(options,
                notices::tokenizer_warnings(*tokenizer, setup.model.task->rows->has_words));
  notices::say(options, notices::resize_notice(config, setup.model));
}

// Before the network is built for the first time. With data the longest row is not known yet, and
// the plan is checked again.
void check_before_building(const RunConfig& config, const RunOptions& options,
                           const run_model::Model& model) {
  const Lengths lengths =
      config.train_file.empty() ? run_model::row_kind_of(model).longest(config, model) : Lengths(1);
  SessionSizes sizes{.lengths = {lengths}, .batch_rows = config.train_batch_size};
  reserve_process(config, options, model, {}, 1, true, sizes);
  check_startup(resolve_memory(config.memory), sizes.startup_bytes, options);
}

}  // namespace

RunSetup open_setup(const RunConfig& config, const RunOptions& options,
                    const run_rows::WorkFolder& work, const std::string& checkpoint) {
  const StopScope stop({.cancel = options.cancel, .deadline = {}});
  RunSetup setup;
  const bool reads_labels = !config.train_file.empty();
  setup.model = run_model::read_model(
      config,
      reads_labels
      ? [&]() -> const tasks::Task& { return run_rows::task_of_labels(config, options); }
      : run_model::TaskOfLabels());
  if (!checkpoint.empty()) {
    run_model::row_kind_of(setup.model).read_folder(checkpoint, setup.model);
    run_model::keep_label_order(checkpoint, setup.model);
  }
  run_model::fit_model(setup.model, config, {});
  check_before_building(config, options, setup.model);
  // A pattern that matches no weight is refused before the data is read.
  if (!config.freeze.empty()) {
    const std::vector<TensorInfo> weights = tensors_of(
        run_model::network_of(setup.model), {.freeze = config.freeze, .lora = setup.model.lora});
    notices::warn(options, notices::frozen_warnings(setup.model, weights));
  }
  train::check_class_weights(config);
  const bool is_resumed = !checkpoint.empty();
  if (!is_resumed) notices::say(options, notices::model_notices(setup.model));
  if (!is_resumed) notices::say(options, run_model::row_kind_of(setup.model).notices(setup.model));
  if (config.train_file.empty()) {
    open_without_data(config, options, checkpoint, setup);
    setup.network = run_model::network_of(setup.model);
    return setup;
  }
  setup.data.emplace(run_rows::open_training_data(config, options, setup.model, checkpoint, work));
  setup.model.frame = setup.data->frame;
  const text::Tokenizer* tokenizer = setup.data->tokenizer.get();
  std::optional<int64_t> pad;
  if (tokenizer != nullptr) pad = tokenizer->pad_id();
  const run_model::Model before = setup.model;
  run_model::fit_model(setup.model, config,
                       {.vocab_size = tokenizer != nullptr ? tokenizer->vocab_size() : 0,
                        .pad_token_id = pad,
                        .labels = setup.data->labels.names(),
                        .num_labels = setup.data->num_labels});
  setup.model.resized = run_model::resized_weights(before, setup.model);
  train::check_class_weights(config, setup.model.labels);
  tasks::check_settings(*setup.model.task, setup.model.task_context());
  setup.network = run_model::network_of(setup.model);
  setup.lengths.assign(setup.data->buckets.begin(), setup.data->buckets.end());
  const data::TrainSampler sampler = run_rows::train_sampler(config, *setup.data);
  setup.histogram = sampler.bucket_histogram();
  setup.batches_per_epoch = sampler.batches_per_epoch();
  if (tokenizer != nullptr) {
    notices::warn(options, notices::spare_rows_warning(setup.model, tokenizer->vocab_size()));
    notices::warn(options,
                  notices::tokenizer_warnings(*tokenizer, setup.model.task->rows->has_words));
    notices::say(options, notices::resize_notice(config, setup.model));
  }
  notices::warn(options, notices::warmup_warning(
                             config, train::total_steps(config, setup.batches_per_epoch)));
  return setup;
}

std::vector<Lengths> lengths_up_to(int64_t max_length, const std::vector<Lengths>& lengths) {
  if (max_length >= lengths.back().of()) return lengths;
  const auto most = static_cast<int32_t>(max_length);
  const std::vector<int32_t> buckets = data::bucket_lengths(most, most);
  return {buckets.begin(), buckets.end()};
}

void reserve_process(const RunConfig& config, const RunOptions& options,
                     const run_model::Model& model, const ProcessFacts& facts, int threads,
                     bool trains, SessionSizes& sizes) {
  if (!options.budgets_whole_process) return;
  run_memory::ProcessNeeds needs = run_memory::process_needs(
      config, model, facts.tokenizer != nullptr ? facts.tokenizer->token_bytes() : 0, sizes.lengths,
      sizes.batch_rows, facts.rows);
  if (facts.tokenizer != nullptr) needs.tokenizer_bytes = facts.tokenizer->table_bytes();
  needs.metric_bytes =
      (*model.task->bytes_of_rows)(model.settings, model.traits.num_labels, facts.evaluated_rows);
  needs.threads = threads;
  needs.trains = trains;
  needs.learns_vocabulary = facts.learns_vocabulary;
  const int64_t host_bytes = round_up(options.host_bytes, kPageBytes);
  sizes.process_bytes = host_bytes + run_memory::process_reservation(needs);
  sizes.startup_bytes = host_bytes + run_memory::startup_reservation(needs);
}

void take_sizes(const SessionSizes& sizes, SessionOptions& options) {
  options.lengths = sizes.lengths;
  options.batch_rows = sizes.batch_rows;
  options.process_bytes = sizes.process_bytes;
  options.startup_bytes = sizes.startup_bytes;
}

void refuse_without_base(const run_model::Model& model) {
  if (!model.lora.is_on() || !model.weights_folder.empty()) return;
  throw Error(ErrorCode::bad_config, "lora",
              "'" + model.name + "' has no trained weights: its adapters would belong to nothing",
              "set model to a folder with model.safetensors or pytorch_model.bin");
}

namespace {

bool has_key(const LeverKeys& keys, const std::string& name) {
  return std::any_of(keys.begin(), keys.end(),
                     [&](const auto& each) { return each.first == name; });
}

// The model of the run and its configuration, with keys of levers set.
struct Variant {
  RunConfig config;
  run_model::Model model;
};

Variant variant_of(const RunConfig& config, const RunSetup& setup, const run_model::Model& model,
                   const LeverKeys& keys) {
  Variant variant{config, model};
  set_levers(keys, variant.config);
  variant.config.validate();
  if (variant.config.lora != config.lora) run_model::take_adapters(variant.config, variant.model);
  if (setup.needs_base) refuse_without_base(variant.model);
  return variant;
}

RunSession session_for(const RunConfig& config, const RunOptions& options, const RunSetup& setup,
                       const run_model::Model& model, const Machine& machine, int64_t micro_batch) {
  RunSession session{.options = train::session_options_of(train::training_spec(
                         config, train::total_steps(config, setup.batches_per_epoch))),
                     .has_command_line_hints = true,
                     .may_take_levers = !config.allow.empty(),
                     .taken_levers = setup.taken_levers};
  session.options.micro_batch_size = micro_batch;
  session.options.lora = model.lora;
  session.options.has_initial_values = false;
  session.options.machine = machine;
  session.options.block = options.memory;
  session.reads_ahead = options.budgets_whole_process;
  if (session.reads_ahead && setup.data) session.row_file_bytes = setup.data->train->file_bytes();
  session.resized = [&](const Lengths& longest, int64_t batch_rows) {
    SessionSizes sizes{.lengths = setup.data || longest.holds(setup.lengths.back())
                                      ? lengths_up_to(longest.of(), setup.lengths)
                                      : std::vector{longest},
                       .batch_rows = batch_rows};
    ProcessFacts facts;
    if (setup.data) {
      facts.learns_vocabulary = setup.data->learns_vocabulary;
      facts.tokenizer = setup.data->tokenizer.get();
      facts.rows = setup.data->train->rows();
      facts.evaluated_rows = setup.data->validation_part.size();
    }
    reserve_process(config, options, model, facts, machine.threads(), true, sizes);
    return sizes;
  };
  session.changed = [&, micro_batch](const LeverKeys& keys) {
    // The session refers to the variant, which lives as long as it does.
    const auto variant = std::make_shared<const Variant>(variant_of(config, setup, model, keys));
    RunSession changed = session_for(
        variant->config, options, setup, variant->model, machine,
        has_key(keys, "micro_batch_size") ? variant->config.micro_batch_size : micro_batch);
    changed.changed = [variant, further = changed.changed](const LeverKeys& more) {
      return further(more);
    };
    return session::ChangedRun{run_model::network_of(variant->model), std::move(changed)};
  };
  take_sizes(session.resized(setup.lengths.back(), config.train_batch_size), session.options);
  return session;
}

}  // namespace

Machine open_machine(const RunConfig& config, const RunOptions& options, BudgetUse use) {
  const StopScope stop({.cancel = options.cancel, .deadline = {}});
  const bool is_within = use == BudgetUse::runs && options.budgets_whole_process;
  return Machine(
      config.threads, options.profile_folder,
      [&] {
        notices::say(options,
                     "measuring how fast this machine is, for this number of threads and " +
                         std::string(to_string(instruction_set())) + ": up to half a minute");
      },
      [&](const std::string& text) { notices::say(options, text); },
      is_within ? resolve_memory(config.memory) - current_rss_bytes() : INT64_MAX);
}

RunSession run_session(const RunConfig& config, const RunOptions& options, const RunSetup& setup,
                       const Machine& machine, int64_t micro_batch) {
  RunSession session = session_for(config, options, setup, setup.model, machine, micro_batch);
  check_startup(resolve_memory(session.options.memory), session.options.startup_bytes, options);
  return session;
}

std::function<void(int64_t done, int64_t total, const char* phase)> planning_sink(
    const RunOptions& options) {
  return [&options, begin = StopClock::now()](int64_t done, int64_t total, const char* phase) {
    if (options.callbacks.on_progress && StopClock::now() - begin > kQuietPlanning)
      options.callbacks.on_progress({"planning", done, total, phase});
  };
}

void check_levers(const LeverKeys& levers, const std::string& file) {
  const std::vector<OptionInfo> options = config_options();
  for (const auto& lever : levers) {
    const bool is_of_recipe = std::any_of(options.begin(), options.end(), [&](const auto& option) {
      return option.name == lever.first && option.resume_rule == ResumeRule::fixed;
    });
    if (!is_of_recipe)
      throw Error(ErrorCode::bad_data, file,
                  "\"levers_taken\" holds " + lever.first + ", which is no lever",
                  "the file was changed after it was written: take it from a copy");
  }
}

void set_levers(const LeverKeys& levers, RunConfig& config) {
  for (const auto& [key, value] : levers) config.set(key, value);
}

TakenLevers take_levers(RunConfig& config, const RunOptions& options, const Machine& machine,
                        RunSetup& setup) {
  std::vector<std::string> allow = config.allow;
  if (allow.empty()) return {};
  if (!options.plan_file.empty())
    throw Error(ErrorCode::bad_config, "allow", "a plan that is replayed takes no levers",
                "give the keys of the levers that it was made with");
  if (setup.model.weights_folder.empty() && std::erase(allow, "lora") > 0)
    notices::say(options,
                 "the lever lora is not taken: '" + setup.model.name + "' has no trained weights");
  RunSession session = run_session(config, options, setup, machine, config.micro_batch_size);
  session.options.on_planning = planning_sink(options);
  const std::vector<LeverPlan> plans = session::plan_allowed_levers(*setup.network, session, allow);
  const LeverPlan* fastest = fastest_fitting(plans);
  TakenLevers taken{.keys = {}, .smallest = smallest_of(plans)};
  taken.keys = fastest != nullptr ? fastest->keys : taken.smallest->keys;
  Variant variant = variant_of(config, setup, setup.model, taken.keys);
  config = std::move(variant.config);
  setup.model = std::move(variant.model);
  setup.network = run_model::network_of(setup.model);
  setup.taken_levers = taken.keys;
  notices::say(options,
               taken.keys.empty() ? "no lever is taken" : "levers taken: " + to_words(taken.keys));
  return taken;
}

void note_levers(const TakenLevers& taken, PlanReport& report) {
  report.levers_taken = taken.keys;
  report.smallest_budget_levers = taken.keys;
  if (!taken.smallest || taken.smallest->smallest_budget_bytes >= report.smallest_budget_bytes)
    return;
  report.smallest_budget_bytes = taken.smallest->smallest_budget_bytes;
  report.smallest_budget_levers = taken.smallest->keys;
}

namespace {

/// The largest training program as the files of `snug solve`, and which program that is.
void write_for_solve(const SessionPlan& plan, const PlanReport& report, const RunOptions& options) {
  if (options.save_problem_file.empty() && options.save_schedule_file.empty()) return;
  if (!options.save_problem_file.empty()) plan.save_problem(options.save_problem_file);
  if (!options.save_schedule_file.empty()) plan.save_schedule(options.save_schedule_file);
  const std::string row =
      report.row.empty() ? "row of " + to_string(report.max_length) + " tokens" : report.row;
  notices::say(options,
               "saved for snug solve: forward and backward of " +
                   std::to_string(report.micro_batch) + " x " + row + ", " +
                   (report.accumulation_steps > 1 ? "without the update" : "with the update") +
                   ", one of the " + std::to_string(report.programs) + " programs of this run");
}

}  // namespace

ReportedPlan plan_setup(const RunConfig& config, const RunOptions& options, const RunSetup& setup,
                        const Machine& machine, int64_t micro_batch) {
  const StopScope stop({.cancel = options.cancel, .deadline = {}});
  RunSession session = run_session(config, options, setup, machine, micro_batch);
  session.options.wants_picture = options.wants_picture;
  session.options.plan_file = options.plan_file;
  session.options.on_planning = planning_sink(options);
  const SessionPlan plan = session::plan_session(*setup.network, session);
  ReportedPlan run{.plan = plan, .report = plan.report()};
  PlanReport& report = run.report;
  report.row = run_model::row_kind_of(setup.model).row(setup.model);
  if (!options.save_plan_file.empty()) plan.save(options.save_plan_file);
  write_for_solve(plan, report, options);
  if (setup.histogram.empty()) return run;
  report.updates = train::total_steps(config, setup.batches_per_epoch);
  double epoch_seconds = 0;
  for (size_t i = 0; i < report.lengths.size(); ++i)
    epoch_seconds +=
        report.lengths[i].update_seconds * static_cast<double>(setup.histogram[i].batches);
  report.run_seconds = epoch_seconds * static_cast<double>(report.updates) /
                       static_cast<double>(std::max<int64_t>(setup.batches_per_epoch, 1));
  return run;
}

}  // namespace snug::verbs
