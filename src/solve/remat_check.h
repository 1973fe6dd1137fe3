// SPDX-License-Identifier: Apache-2.0
// The independent judge of schedules: replays one step by step. Shares the parsed problem
// with the solver and nothing else.
#pragma once

#include <string>
#include <vector>

#include "plan/problem/plan.h"
#include "snug/solve_remat.h"

namespace snug::solve {

[[nodiscard]] RematCheck replay(const plan::Problem& problem,
                                const std::vector<std::string>& schedule);

}  // namespace snug::solve
