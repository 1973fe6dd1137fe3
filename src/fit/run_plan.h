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

#include "fit/request.h"
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

/// Throws Error{out_of_budget} whose text has the proof, the smallest budget and the cheapest ways
/// to fit.
[[nodiscard]] RunPlan make_run_plan(const RunPlanRequest& request, const Backend& backend);

/// The plan of one program with a named strategy ("keep-all", "recompute-all", "sqrt", "every:2");
/// for verification.
[[nodiscard]] PlannedProgram plan_program(Graph graph, int64_t length, const Backend& backend,
                                          const std::string& strategy);

}  // namespace snug::train
