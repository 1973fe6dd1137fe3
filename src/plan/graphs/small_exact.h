// SPDX-License-Identifier: Apache-2.0
// Exhaustive search for tiny problems: the cheapest schedule within a budget, over all orders or
// with the first runs in the given one. A* over states (what is in memory, which ops have run).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/problem/index.h"

namespace snug::plan {

struct ExactAnswer {
  bool is_complete = false;                   // the search ended; nothing is missed
  std::optional<std::vector<OpId>> schedule;  // the cheapest one, where any fits
};

inline constexpr int32_t kMaxExactOps = 12;
inline constexpr int32_t kMostExactOps = kMaxExactOps + 2;  // with those of a boundary

/// At most kMostExactOps ops and 64 arena storages; more, or more than `max_states` states, and the
/// answer is not complete.
[[nodiscard]] ExactAnswer cheapest_schedule(const ProblemIndex& index, int64_t budget_bytes,
                                            bool may_reorder, int64_t max_states = 4'000'000);

}  // namespace snug::plan
