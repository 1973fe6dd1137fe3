// SPDX-License-Identifier: Apache-2.0
// The true optimum of tiny joint graphs by exhaustive search over what they mean, views and the
// boundary included. Shares nothing with the solver or the check. Test code only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/problem/plan.h"

namespace snug::solve::testing {

/// Ops, arena storages and views of a graph, each.
inline constexpr size_t kMostOfAKind = 16;

/// Least cost of any valid schedule whose peak stays within `budget_bytes`; nothing where there is
/// none. `may_reorder`: else first runs keep the
/// listed order, those of views that somebody reads aside.
[[nodiscard]] std::optional<double> least_cost(const plan::Problem& problem, int64_t budget_bytes,
                                               bool may_reorder);

/// Whether the schedule is valid with so many steps in front of the boundary, bytes aside.
[[nodiscard]] bool is_valid(const plan::Problem& problem, const std::vector<plan::OpId>& schedule,
                            size_t boundary_step);

}  // namespace snug::solve::testing
