// SPDX-License-Identifier: Apache-2.0
// A problem of the planner, and a schedule of it, as the files that `snug solve` reads
// (docs/solve.md). What keeping a byte costs (Problem::kept_seconds_per_byte) is no part of a
// problem file; the schedule file says what it adds.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plan/problem/plan.h"

namespace snug::solve {

/// Ids are names, with "#2", "#3" and so on behind repeated ones; those of ops begin with their
/// scope.
[[nodiscard]] std::string remat_problem_json(const plan::Problem& problem);

/// The ops in the order of execution by those ids, with `peak_bytes`, `cost` (over all runs),
/// `kept_bytes` (live across the loss) and `kept_cost` (what the planner adds for them).
[[nodiscard]] std::string remat_schedule_json(const plan::Problem& problem,
                                              std::span<const plan::OpId> schedule);

}  // namespace snug::solve
