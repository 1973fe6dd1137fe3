// SPDX-License-Identifier: Apache-2.0
// The independent judge of problems and plans: quadratic and obvious. It shares no code with the
// planner; a plan is valid when this file says so.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/index_vector.h"
#include "plan/problem/plan.h"

namespace snug::plan {

/// Throws Error{invalid_graph} that names the op or storage unless the problem is well formed: ids
/// in range, no repeats, one maker per storage, everything made before it is read, bytes
/// non-negative and aligned; views, ordered ops and the boundary as they may be.
void validate(const Problem& problem);

/// Replays the steps symbolically and returns every violation found (at most 20; empty means
/// valid): each op runs, what must run once does, every read sees the newest instance at its offset
/// and the right version of resident storage, no two live instances overlap, and the numbers the
/// plan claims (arena, load, peak, seconds) are its own.
[[nodiscard]] std::vector<std::string> check(const Problem& problem, const Plan& plan);

/// The same for a bare schedule without offsets. Both are for plain problems (joint.h).
[[nodiscard]] std::vector<std::string> check_schedule(const Problem& problem,
                                                      IndexSpan<const OpId> schedule);

}  // namespace snug::plan
