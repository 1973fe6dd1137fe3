// SPDX-License-Identifier: Apache-2.0
// From a schedule to a finished plan: liveness, placement, and the offsets of every operand of
// every step.
#pragma once

#include <span>
#include <string>

#include "base/index_vector.h"
#include "plan/placement/placement.h"
#include "plan/problem/plan.h"

namespace snug::plan {

/// What a plan has beside its schedule: all else follows from the two. A fifth of its bytes.
struct PlacedSchedule {
  Placement placement;
  bool is_separated = false;  // outputs that need not lie in their inputs' places have their own
};

[[nodiscard]] PlacedSchedule place_schedule(const Problem& problem, IndexSpan<const OpId> schedule,
                                            const FusedSteps& fused = {},
                                            const PlacementLimits& limits = {});

/// `placed`: of this schedule. In Debug builds the validator judges the plan first.
[[nodiscard]] Plan assemble(const Problem& problem, IndexSpan<const OpId> schedule,
                            const FusedSteps& fused, std::string strategy, PlacedSchedule placed);

/// Places `schedule` and returns the plan.
[[nodiscard]] Plan assemble(const Problem& problem, IndexSpan<const OpId> schedule,
                            std::string strategy, const PlacementLimits& limits = {},
                            const FusedSteps& fused = {});

}  // namespace snug::plan
