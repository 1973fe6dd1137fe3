// SPDX-License-Identifier: Apache-2.0
// The schedules of a split.
#pragma once

#include "choose/batch_split.h"

namespace snug::choose {

/// How the frontiers of a run are searched for. What planning takes is counted where the budget is
/// the whole process's.
[[nodiscard]] plan::FrontierOptions frontier_options(const RunPlanRequest& request);

/// Finds its frontier: the saved plan or a named strategy where the request has one. `model`: a
/// split whose schedules are taken over where the programs have the same ops, or the same but for
/// packings; null to plan from scratch.
void plan_split(const RunPlanRequest& request, const BatchSplit* model, BatchSplit& split,
                const plan::ShareSink& on_share = {});

}  // namespace snug::choose
