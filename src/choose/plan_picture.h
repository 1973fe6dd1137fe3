// SPDX-License-Identifier: Apache-2.0
// What people want to see of a plan: how each block is treated, memory over time, the arena's map.
#pragma once

#include <vector>

#include "plan/problem/plan.h"
#include "snug/plan_report.h"

namespace snug::choose {

/// Scopes are cut behind their first number ("bert.encoder.layer.3"); consecutive equal ones are
/// one entry. Forward ops without a numbered scope are grouped by their first two names.
[[nodiscard]] std::vector<BlockTreatment> describe_blocks(const plan::Problem& problem,
                                                          const plan::Plan& plan,
                                                          const plan::Plan& keep_all);
[[nodiscard]] MemoryCurve memory_curve(const plan::Problem& problem, const plan::Plan& plan,
                                       std::string name);
[[nodiscard]] std::vector<PlacedTensor> placed_tensors(const plan::Problem& problem,
                                                       const plan::Plan& plan);
/// What is live at the peak, largest first.
[[nodiscard]] std::vector<PeakTensor> peak_tensors(const plan::Problem& problem,
                                                   const plan::Plan& plan);

}  // namespace snug::choose
