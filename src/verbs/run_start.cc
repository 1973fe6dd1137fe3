// SPDX-License-Identifier: Apache-2.0
#include "verbs/run_start.h"

#include <optional>
#include <utility>

#include "io/file.h"
#include "notices/notices.h"
#include "run_model/model_weights.h"
#include "run_rows/streams.h"
#include "snug/does_not_fit.h"
#include "snug/instruction_set.h"
#include "train/resume.h"
#include "train/same_model.h"
#include "train/trainer.h"

namespace snug::verbs {

using train::RunFolder;

namespace {

class FreshStart : public RunStart {
 public:
  FreshStart(const RunFolder& folder, const RunOptions& options)
      : folder_(folder), options_(options) {}

  [[nodiscard]] std::string checkpoint() const override { return {}; }
  void check(const RunConfig& config, const RunSetup& setup) override {
    if (!setup.model.weights_folder.empty()) run_model::check_weight_files(setup.model);
    train::refuse_foreign_archives(folder_, config, 0, setup.batches_per_epoch);
  }
  [[nodiscard]] TakenLevers levers(RunConfig& config, const Machine& machine,
                                   RunSetup& setup) const override {
    return take_levers(config, options_, machine, setup);
  }
  [[nodiscard]] ReportedPlan plan(const RunConfig& config, const RunSetup& setup,
                                  const Machine& machine) const override {
    return plan_setup(config, options_, setup, machine, config.micro_batch_size);
  }
  [[nodiscard]] std::string load(const RunConfig& /*config*/, const run_model::Model& model,
                                 Session& session) const override {
    return run_model::initialize_weights(model, session);
  }
  void report() const override {}
  [[nodiscard]] std::optional<int64_t> good_step() const override { return std::nullopt; }

 private:
  const RunFolder& folder_;
  const RunOptions& options_;
};

class ResumedStart : public RunStart {
 public:
  ResumedStart(const RunFolder& folder, const RunOptions& options, train::RunState state,
               RunConfig& config)
      : folder_(folder), options_(options) {
    state_ = std::move(state);
    const std::string file = train::state_path(folder_.last());
    check_levers(state_.levers, file);
    set_levers(state_.levers, config);
    before_ = RunConfig::from_json(state_.config_json, file);
    if (config.task == "auto") config.task = before_.task;  // what the labels looked like then
    changes_ = train::changed_keys(before_, config);
  }

  [[nodiscard]] std::string checkpoint() const override { return folder_.last(); }

  void check(const RunConfig& config, const RunSetup& setup) override {
    if (!state_.rows_hash) {
      notices::say(options_,
                   folder_.last() +
                       " was written by an older version of Snug: whether its rows are those of " +
                       config.train_file + " is not checked");
    }
    const int64_t batches = setup.batches_per_epoch;
    const bool was_finished = state_.is_finished;
    train::check_state(before_, config, *setup.data, folder_, state_);
    train::require_same_model(setup.model, folder_.last(), before_, config);
    state_.is_finished = train::is_at_end(state_, before_, config, batches);
    trains_nothing_ = was_finished && state_.is_finished;
    train::report_changes(changes_, state_, config, batches, options_);
    train::refuse_foreign_archives(folder_, config, state_.step, batches);
  }

  [[nodiscard]] TakenLevers levers(RunConfig& /*config*/, const Machine& /*machine*/,
                                   RunSetup& /*setup*/) const override {
    if (!state_.levers.empty()) notices::say(options_, "levers taken: " + to_words(state_.levers));
    return {.keys = state_.levers};
  }

  [[nodiscard]] ReportedPlan plan(const RunConfig& config, const RunSetup& setup,
                                  const Machine& machine) const override {
    try {
      return plan_setup(config, options_, setup, machine, train::micro_batch_of(config, state_));
    } catch (const DoesNotFit& refusal) {
      if (config.allow_new_split) throw;
      throw DoesNotFit(
          refusal.where(),
          refusal.message() + "\n  the checkpoint's micro-batch of " +
              std::to_string(state_.micro_batch) +
              " is kept on resume; --allow_new_split permits another (the last bits will differ)",
          refusal.facts());
    }
  }

  [[nodiscard]] std::string load(const RunConfig& config, const run_model::Model& model,
                                 Session& session) const override {
    // A checkpoint of adapters, or of frozen weights in fewer bits, holds what moved only.
    std::string base_sha256;
    if (model.lora.is_on() || config.frozen_dtype != "float32")
      base_sha256 = run_model::initialize_weights(model, session);
    if (before_.loss_scale == config.loss_scale)
      train::require_kind_of_scale(state_, session, folder_);
    train::load_checkpoint(folder_.last(), session, model, base_sha256);
    return base_sha256;
  }

  void report() const override {
    notices::say(options_, "resuming after update " + std::to_string(state_.step));
    if (!trains_nothing_) notices::say(options_, instruction_set_notice(state_.instruction_set));
  }

  [[nodiscard]] std::optional<int64_t> good_step() const override { return state_.step; }

 private:
  const RunFolder& folder_;
  const RunOptions& options_;
  RunConfig before_;  // of the checkpoint
};

void refuse_used_folder(const RunFolder& folder) {
  for (const char* name : {"last", "best", "metrics.jsonl"}) {
    if (!io::file_exists(folder.file(name)) && !io::is_folder(folder.file(name))) continue;
    throw Error(ErrorCode::bad_config, "output_dir",
                folder.path + " already holds a run ('" + name + "')",
                "add --resume to go on with it, or choose another output_dir");
  }
}

}  // namespace

std::unique_ptr<RunStart> open_start(const RunFolder& folder, const run_rows::WorkFolder& work,
                                     RunConfig& config, const RunOptions& options) {
  std::optional<train::RunState> state = train::read_checkpoint(folder, options);
  if (!config.resume) refuse_used_folder(folder);
  train::refuse_incomplete(folder);
  const run_rows::CopiedStreams streams(config, options, work,
                                        {&RunConfig::train_file, &RunConfig::validation_file},
                                        run_rows::CopiedStreams::Copies::stay);
  if (!state) return std::make_unique<FreshStart>(folder, options);
  train::check_best(folder, options, *state);
  return std::make_unique<ResumedStart>(folder, options, std::move(*state), config);
}

}  // namespace snug::verbs
