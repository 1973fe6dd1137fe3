// SPDX-License-Identifier: Apache-2.0
// Improvement of a flat schedule, whatever made it: recomputations that the memory does not need
// are taken out. Judged by exact liveness; never invalid.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/index_vector.h"
#include "plan/problem/index.h"
#include "plan/problem/liveness.h"

namespace snug::plan {

/// Takes out repeated runs, most seconds per byte first, as long as no step exceeds `limit_bytes`;
/// the storage then stays from its earlier run. Repeated runs that nobody reads go first. `live`:
/// the schedule's.
[[nodiscard]] std::vector<OpId> fill_slack(const ProblemIndex& index,
                                           IndexSpan<const OpId> schedule, const StepLoads& loads,
                                           int64_t limit_bytes);

}  // namespace snug::plan
