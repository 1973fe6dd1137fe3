// SPDX-License-Identifier: Apache-2.0
// Orders of the first runs that need fewer bytes than the given one, before any recomputation.
#pragma once

#include <vector>

#include "plan/problem/index.h"

namespace snug::plan {

/// Moves single ops as far as their operands (and the versions of resident storages they see)
/// permit while the load falls, or the load holds and fewer bytes are live in sum. Returns the
/// given order where nothing helps.
[[nodiscard]] std::vector<OpId> lower_peak_order(const ProblemIndex& index);

}  // namespace snug::plan
