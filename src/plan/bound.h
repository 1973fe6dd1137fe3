// SPDX-License-Identifier: Apache-2.0
// Certificates: what no schedule of a problem can beat, in bytes and in seconds.
#pragma once

#include <cstdint>

#include "plan/plan.h"

namespace snug::plan {

/// The op whose arena inputs, outputs, scratch and what must be kept beside them are the largest.
[[nodiscard]] WorkingSetBound working_set_bound(const Problem& problem);

/// A number of seconds that no valid schedule within `arena_budget_bytes` can beat; at least the time of running every
/// op once. Valid for any schedule, not only for those this planner makes.
[[nodiscard]] double lower_bound_seconds(const Problem& problem, int64_t arena_budget_bytes);

}  // namespace snug::plan
