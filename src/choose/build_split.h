// SPDX-License-Identifier: Apache-2.0
// Everything of a split but its schedules, which take most of the time: its programs, what lies in
// memory besides, and the problem whose schedules are to be found (plan_split.h).
#pragma once

#include <functional>

#include "choose/batch_split.h"
#include "choose/update_programs.h"

namespace snug::choose {

/// Told what is begun (planning_progress.h).
using PhaseSink = std::function<void(const char* phase)>;

/// `once`: what its update needs besides is added to it where it is not there yet.
[[nodiscard]] BatchSplit build_split(const RunPlanRequest& request, const SplitForm& form,
                                     const Backend& backend, UpdatePrograms& once,
                                     const PhaseSink& on_phase = {});

}  // namespace snug::choose
