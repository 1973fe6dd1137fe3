// SPDX-License-Identifier: Apache-2.0
// From a schedule to a finished plan: liveness, placement, and the offsets of every operand of
// every step.
#pragma once

#include <span>
#include <string>

#include "base/id_vector.h"
#include "plan/placement/placement.h"
#include "plan/problem/plan.h"

namespace snug::plan {

/// Places `schedule` and returns the plan; in Debug builds the validator judges it first.
[[nodiscard]] Plan assemble(const Problem& problem, IdSpan<const OpId> schedule,
                            std::string strategy, const PlacementLimits& limits = {});

}  // namespace snug::plan
