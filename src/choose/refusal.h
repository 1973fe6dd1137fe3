// SPDX-License-Identifier: Apache-2.0
// "It does not fit", as text and as data: the proof or the bound and the gap, the smallest budget,
// the cheapest ways to fit.
#pragma once

#include <vector>

#include "choose/candidates.h"
#include "snug/does_not_fit.h"

namespace snug::choose {

/// At most 25 lines. `candidates` is not empty and none of them fits the request's budget.
[[nodiscard]] DoesNotFit refusal_of(const RunPlanRequest& request,
                                    const std::vector<Candidate>& candidates,
                                    const Backend& backend);

}  // namespace snug::choose
