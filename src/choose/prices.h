// SPDX-License-Identifier: Apache-2.0
// The price list of a run: what a step takes from which budget on.
#pragma once

#include <vector>

#include "choose/candidates.h"
#include "snug/plan_report.h"

namespace snug::choose {

/// Four to eight candidates that no other beats in bytes and seconds, spread along the curve, all
/// placed; and the chosen one. Smallest budget first.
[[nodiscard]] std::vector<PriceRow> price_list(const RunPlanRequest& request,
                                               const std::vector<Candidate>& candidates,
                                               const PlacedCandidate& smallest,
                                               const PlacedCandidate& chosen);

}  // namespace snug::choose
