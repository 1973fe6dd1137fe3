// SPDX-License-Identifier: Apache-2.0
// What a planned update runs: where its time goes, which ops are one kernel, and which are not
// although they could be. Everything is predicted; nothing runs.
#pragma once

#include "choose/run_plan.h"
#include "compile/fusion_levels.h"
#include "session/machine.h"
#include "snug/explain.h"

namespace snug::session {

/// Fills step, merged and apart: the programs of an update of the longest rows, as often as each
/// runs in it; where the plan only evaluates, the evaluation.
void explain_step(const choose::RunPlan& run, const compile::FusionLevels& levels,
                  const Machine::Impl& machine, Explanation& explanation);

}  // namespace snug::session
