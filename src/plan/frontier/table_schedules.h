// SPDX-License-Identifier: Apache-2.0
// Schedules of the chain's tables around one budget, for a search that goes on from them. Blocks
// are cut in several sizes: where small ops cost as much as large ones it is not known beforehand
// which of them belong together.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/problem/plan.h"

namespace snug::plan {

/// With first runs in the given order; nearest to the budget first, above it and below. None where
/// the problem has no backward part, or an op that writes in the
/// place of what the forward part made.
[[nodiscard]] std::vector<std::vector<OpId>> table_schedules(const Problem& problem,
                                                             int64_t budget_bytes,
                                                             size_t block_sizes);

}  // namespace snug::plan
