// SPDX-License-Identifier: Apache-2.0
// A program whose plan is not searched.
#pragma once

#include <string>

#include "choose/request.h"
#include "choose/run_plan.h"

namespace snug::choose {

/// Its plan is the saved one's for a program of this kind ("train", "eval", "prologue", "update"),
/// or keep-all.
[[nodiscard]] PlannedProgram plain_program(const RunPlanRequest& request, const std::string& kind,
                                           Graph graph, const Lengths& length,
                                           const Backend& backend);

}  // namespace snug::choose
