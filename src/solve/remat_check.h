// SPDX-License-Identifier: Apache-2.0
// The independent judge of schedules: replays one step by step. Shares the parsed problem
// with the solver and nothing else. Of a boundary whose place the schedule does not say it takes
// the place with the smallest peak.
#pragma once

#include "plan/problem/plan.h"
#include "snug/solve_remat.h"
#include "solve/remat_file.h"

namespace snug::solve {

[[nodiscard]] RematCheck replay(const plan::Problem& problem, const ScheduleFile& schedule);

}  // namespace snug::solve
