// SPDX-License-Identifier: Apache-2.0
// The programs of the plan that was chosen, and where their resident values lie.
#pragma once

#include "choose/batch_split.h"
#include "choose/planning_progress.h"
#include "choose/update_programs.h"

namespace snug::choose {

/// The run but for its report and the program of the longest rows, which `split` keeps until the
/// report is made; `split.program` has its plan. Takes what else was built from `split` and `once`.
[[nodiscard]] RunPlan programs_beside_longest(const RunPlanRequest& request, BatchSplit& split,
                                              UpdatePrograms& once, const Backend& backend,
                                              PlanningProgress& progress);

}  // namespace snug::choose
