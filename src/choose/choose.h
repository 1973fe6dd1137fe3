// SPDX-License-Identifier: Apache-2.0
// Chooses how a run fits its budget: among the splits of the global batch and, for each, the placed
// plans of its frontier, the fastest that fits. The set of candidates does not depend on the
// budget, so more memory is never slower.
#pragma once

#include "choose/request.h"
#include "choose/run_plan.h"

namespace snug::choose {

/// Throws Error{out_of_budget} whose text has the proof, the smallest budget and the cheapest ways
/// to fit, unless the request takes its smallest plan then.
[[nodiscard]] RunPlan make_run_plan(const RunPlanRequest& request, const Backend& backend);

}  // namespace snug::choose
