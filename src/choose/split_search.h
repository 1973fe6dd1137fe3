// SPDX-License-Identifier: Apache-2.0
// The splits of the global batch that are tried, each with the frontier of its schedules.
#pragma once

#include <vector>

#include "choose/batch_split.h"
#include "choose/planning_progress.h"
#include "choose/update_programs.h"

namespace snug::choose {

/// All splits that are tried, and what they share.
struct Splits {
  std::vector<BatchSplit> list;
  UpdatePrograms once;
};

/// One for each micro-batch of micro_batches_of() and each of its forms; of very long programs for
/// some of them. A given micro-batch has the schedules that it would have among all. Graphs of all
/// would be half of the planning's memory again: only the split of best_within() has one in the
/// end, and where none fits and the smallest is to be taken, all have.
[[nodiscard]] Splits make_splits(const RunPlanRequest& request, const Backend& backend,
                                 PlanningProgress& progress);

}  // namespace snug::choose
