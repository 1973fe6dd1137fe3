// SPDX-License-Identifier: Apache-2.0
// The true optimum of tiny problems by exhaustive search over all schedules. Test code only.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/problem/plan.h"

namespace snug::plan::testing {

/// Fewest seconds of any valid schedule whose load stays within `budget_bytes`; nothing where none
/// exists. Searches the states (what is in memory, which ops have run); at most about 10 ops.
/// Resident storages must not be written.
[[nodiscard]] std::optional<double> fewest_seconds(const Problem& problem, int64_t budget_bytes);

/// The smallest load of any valid schedule, in steps of the alignment.
[[nodiscard]] int64_t smallest_load(const Problem& problem);

}  // namespace snug::plan::testing
