// SPDX-License-Identifier: Apache-2.0
// The cheapest ways to fit a budget: levers (levers.h) and pairs of them that were planned and do
// fit, each with its bytes and its time.
#pragma once

#include <string>
#include <vector>

#include "choose/candidates.h"
#include "choose/levers.h"

namespace snug::choose {

struct Hint {
  std::string words;        // to append to the command as they are
  LeverKeys keys = {};      // the same as data
  int64_t least_bytes = 0;  // a budget that works then; a run may find a smaller one
  double step_seconds = 0;  // within the budget asked for
  bool is_at_most = false;  // a run may find a faster plan
  bool changes_result = false;
};

/// `candidates`: the request's own, none of which fits. At most eight, first those that do not
/// change the result. In bounded work: trials.h.
[[nodiscard]] std::vector<Hint> hints_for(const RunPlanRequest& request,
                                          const std::vector<Candidate>& candidates,
                                          const Backend& backend);

}  // namespace snug::choose
