// SPDX-License-Identifier: Apache-2.0
// Rules of fusion levels (compile/fusion_levels.h) that name nothing, or nothing that they change.
#pragma once

#include "backend/backend.h"
#include "choose/request.h"

namespace snug::choose {

/// Throws Error{bad_config}, with the nearest name, for a rule that matches no op of the training
/// programs, none that is computed by rows, or only ops of rules before it. Builds these programs
/// where there are rules. What only evaluates may have rules for ops that it does not have.
void refuse_unused_fusion(const RunPlanRequest& request, const Backend& backend);

}  // namespace snug::choose
