// SPDX-License-Identifier: Apache-2.0
// The steps that every verb begins with: machine, model, data, and the plan of a run.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "run_model/model.h"
#include "run_rows/run_data.h"
#include "session/run_session.h"
#include "snug/run.h"
#include "snug/session.h"

namespace snug::verbs {

/// What a plan needs to know of data and model. Without data: the full batch at max_seq_length.
struct RunSetup {
  std::optional<run_rows::RunData> data;
  run_model::Model model;
  std::optional<Network> network;  // of the model
  std::vector<Lengths> lengths;
  std::vector<data::BucketCount> histogram;  // global batches an epoch; empty without data
  int64_t batches_per_epoch = 0;
  LeverKeys taken_levers;   // take_levers()
  bool needs_base = false;  // adapters over a base without weights are refused, and no hint
};
/// Throws Error{bad_config} for adapters over a model without weights of its own.
void refuse_without_base(const run_model::Model& model);
/// `checkpoint`: the folder of the one that is resumed, else empty.
[[nodiscard]] RunSetup open_setup(const RunConfig& config, const RunOptions& options,
                                  const run_rows::WorkFolder& work, const std::string& checkpoint);

/// Whether what opens a machine runs in the budget, which is the whole process's then, or only
/// plans for one.
enum class BudgetUse { runs, plans };
/// What the verb runs on. Measuring it for the first time is said, hears a signal, and keeps to the
/// budget of a run.
[[nodiscard]] Machine open_machine(const RunConfig& config, const RunOptions& options,
                                   BudgetUse use);

/// How the run is planned and trained; `micro_batch` 0: chosen by the planner. Refers to all that
/// it is given. Weights are not initialised. Throws what check_startup does.
[[nodiscard]] session::RunSession run_session(const RunConfig& config, const RunOptions& options,
                                              const RunSetup& setup, const Machine& machine,
                                              int64_t micro_batch);
struct TakenLevers {
  LeverKeys keys = {};                     // set in the configuration and in the model
  std::optional<LeverPlan> smallest = {};  // of those that are allowed, what needs least
};
/// The levers that the run allows and the planner takes: the fastest that fit, or where none do
/// those that need least, which a refusal is about. They are said.
[[nodiscard]] TakenLevers take_levers(RunConfig& config, const RunOptions& options,
                                      const Machine& machine, RunSetup& setup);
/// What was taken, and the smallest budget of all that is allowed.
void note_levers(const TakenLevers& taken, PlanReport& report);
/// Sets keys of levers that were taken before.
void set_levers(const LeverKeys& levers, RunConfig& config);
/// Throws Error{bad_data} where levers that were read from `file` hold a key that a resumed run may
/// have anew: its budget or a folder, say, which are the user's.
void check_levers(const LeverKeys& levers, const std::string& file);

/// Tells on_progress of planning that takes a while.
[[nodiscard]] std::function<void(int64_t done, int64_t total, const char* phase)> planning_sink(
    const RunOptions& options);

struct ReportedPlan {
  SessionPlan plan;
  PlanReport report;  // with what only the data knows: updates and the duration of the whole run
};
[[nodiscard]] ReportedPlan plan_setup(const RunConfig& config, const RunOptions& options,
                                      const RunSetup& setup, const Machine& machine,
                                      int64_t micro_batch);

/// What a plan's bytes beside resident values and arena depend on, apart from the request itself.
struct ProcessFacts {
  const text::Tokenizer* tokenizer = nullptr;  // null: images, or not known yet
  int64_t rows = 0;                            // 0: not known
  int64_t evaluated_rows = 0;
  bool learns_vocabulary = false;
};
/// Fills process_bytes and startup_bytes for these lengths and this batch, where they count in the
/// budget.
void reserve_process(const RunConfig& config, const RunOptions& options,
                     const run_model::Model& model, const ProcessFacts& facts, int threads,
                     bool trains, session::SessionSizes& sizes);
/// Plans and trains with these sizes.
void take_sizes(const session::SessionSizes& sizes, SessionOptions& options);

/// The buckets of data whose longest row is cut off at `max_length`; those given where that is none
/// of their rows.
[[nodiscard]] std::vector<Lengths> lengths_up_to(int64_t max_length,
                                                 const std::vector<Lengths>& lengths);

}  // namespace snug::verbs
