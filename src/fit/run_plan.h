// SPDX-License-Identifier: Apache-2.0
// Chooses how a run fits its budget: among the splits of the global batch and, for each, the placed
// plans of its frontier, the fastest that fits. The set of candidates does not depend on the
// budget, so more memory is never slower.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fit/saved_plan.h"
#include "programs/programs.h"
#include "runtime/lower.h"
#include "runtime/memory.h"
#include "snug/plan_report.h"

namespace snug::train {

struct PlannedProgram {
  int64_t length = 0;  // of the bucket; 0 for what runs once an update
  Graph graph;
  Lowered lowered;
  plan::Plan plan;
};

struct RunPlan {
  PlanReport report;
  int64_t micro_batch = 0;
  int64_t accumulation_steps = 0;
  std::vector<PlannedProgram> train;       // by bucket, ascending; empty for evaluation alone
  std::optional<PlannedProgram> prologue;  // before the micro-batches, and before evaluation
  std::optional<PlannedProgram> update;    // behind them
  std::vector<PlannedProgram> eval;        // by bucket, ascending
  ResidentLayout residents;
  int64_t arena_bytes = 0;
  /// Of them: gradients that all live until the global clip, in whole pages. Reports count them as
  /// resident; the arena uses their place before they are made.
  int64_t gradient_bytes = 0;
};

/// How options are called where a refusal says what would help: `--key value` of the command line,
/// or `field = value` of SessionOptions.
enum class OptionWords : uint8_t { command_line, fields };
/// `key` is the command line's; an empty value: the switch is on.
[[nodiscard]] std::string option_words(OptionWords words, const std::string& key,
                                       const std::string& value);

struct RunPlanRequest {
  NetworkDef network;
  Recipe recipe;
  int64_t global_batch = 0;
  int64_t micro_batch = 0;           // 0: chosen here
  std::vector<int64_t> lengths;      // buckets, ascending; the last decides
  std::string strategy;              // named: what is recomputed; empty: by the budget
  bool allow_coupled_split = false;  // although the network couples its rows
  int64_t budget_bytes = 0;          // of resident + arena + process_bytes
  int64_t process_bytes = 0;         // 0 inside somebody else's process
  int64_t startup_bytes =
      0;               // what the steps before training need at least (learning a vocabulary)
  bool trains = true;  // false: evaluation alone
  const SavedPlan* saved = nullptr;  // replayed; then micro_batch is its own
  OptionWords words = OptionWords::command_line;
  bool wants_picture = false;  // curves and placed tensors in the report
  std::function<void(int64_t done, int64_t total)> on_progress = {};  // may be empty
  /// A request like the given one of this run, with rows of at most `max_length` and batches of
  /// `global_batch`: buckets and process_bytes follow. Empty: the sizes cannot be changed.
  std::function<RunPlanRequest(const RunPlanRequest& from, int64_t max_length,
                               int64_t global_batch)>
      resized = {};
};

/// Throws Error{out_of_budget} whose text has the proof, the smallest budget and the cheapest ways
/// to fit.
[[nodiscard]] RunPlan make_run_plan(const RunPlanRequest& request, const Backend& backend);

/// The plan of one program with a named strategy ("keep-all", "recompute-all", "sqrt", "every:2");
/// for verification.
[[nodiscard]] PlannedProgram plan_program(Graph graph, int64_t length, const Backend& backend,
                                          const std::string& strategy);

}  // namespace snug::train
