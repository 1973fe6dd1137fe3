// SPDX-License-Identifier: Apache-2.0
// A program whose plan is not searched.
#pragma once

#include <string>

#include "choose/batch_split.h"
#include "choose/request.h"
#include "choose/run_plan.h"

namespace snug::choose {

/// The plan that is replayed, where its programs are of this form: the form without packed weights
/// is built on the way to the other. Null: there is none.
[[nodiscard]] const SavedPlan* saved_plan_of(const RunPlanRequest& request, const SplitForm& form);

/// Its plan is the saved one's for a program of this kind ("train", "eval", "prologue", "update"),
/// or, without one, keep-all.
[[nodiscard]] PlannedProgram plain_program(const RunPlanRequest& request, const SavedPlan* saved,
                                           const std::string& kind, Graph graph,
                                           const Lengths& length, const Backend& backend,
                                           const plan::FrontierOptions& options = {});

}  // namespace snug::choose
