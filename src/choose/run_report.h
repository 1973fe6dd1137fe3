// SPDX-License-Identifier: Apache-2.0
// The report of a run plan: its figures, how the model is treated, and what else could have run.
#pragma once

#include <vector>

#include "choose/candidates.h"

namespace snug::choose {

/// The split of `chosen` still has the program of the longest rows, with its plan; `run` has all
/// others. Its model, precision and instruction set are not known here.
[[nodiscard]] PlanReport report_of(const RunPlanRequest& request,
                                   const std::vector<Candidate>& candidates,
                                   const PlacedCandidate& chosen, const RunPlan& run);

}  // namespace snug::choose
