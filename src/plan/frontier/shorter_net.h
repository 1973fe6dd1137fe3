// SPDX-License-Identifier: Apache-2.0
// Schedules for a problem that is a part of another: a recurrent net of fewer steps, or the same
// net with other sizes. What the whole schedules well, the part does too, with no search of its own
// and no more bytes at any moment but the few where the part ends otherwise.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/index_vector.h"
#include "plan/problem/plan.h"

namespace snug::plan {

/// The ops of `part` in the order in which their partners run in `schedule`, a schedule of `whole`,
/// repeats included. Partners have the same scope, name, phase and place among such ops; where the
/// two problems have different numbers of them there are no partners, and these ops run once, as
/// soon as they can; runs that serve nothing in the part are left out. Nothing where that is no
/// valid schedule.
[[nodiscard]] std::optional<std::vector<OpId>> schedule_of_part(const Problem& part,
                                                                const Problem& whole,
                                                                IndexSpan<const OpId> schedule);

/// Every op of `whole` has at least the scratch of its partner then. Shorter rows may need more: a
/// product of 16 bits copies operands whose summed rows do not fill its tiles.
void take_scratch_of_part(const Problem& part, Problem& whole);

}  // namespace snug::plan
