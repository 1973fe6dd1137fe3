// SPDX-License-Identifier: Apache-2.0
// Chooses how a run fits its budget: among the splits of the global batch and, for each, the placed
// plans of its frontier, the fastest that fits. The set of candidates does not depend on the
// budget, so more memory is never slower.
#pragma once

#include <string>

#include "fit/planned_run.h"
#include "fit/request.h"

namespace snug::train {

/// Throws Error{out_of_budget} whose text has the proof, the smallest budget and the cheapest ways
/// to fit, unless the request takes its smallest plan then.
[[nodiscard]] RunPlan make_run_plan(const RunPlanRequest& request, const Backend& backend);

/// The plan of one program with a named strategy ("keep-all", "recompute-all", "sqrt", "every:2");
/// for verification.
[[nodiscard]] PlannedProgram plan_program(Graph graph, const Lengths& length,
                                          const Backend& backend, const std::string& strategy);

}  // namespace snug::train
