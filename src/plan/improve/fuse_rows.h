// SPDX-License-Identifier: Apache-2.0
// Row programs of a schedule: adjacent steps that are computed by rows become one kernel where that
// takes no more bytes than the schedule has anyway. What they hand on is then never in memory, and
// what is made again right before it is read costs no bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/index_vector.h"
#include "plan/improve/fuse_steps.h"
#include "plan/problem/liveness.h"
#include "plan/problem/row_runs.h"

namespace snug::plan {

/// Whether what a product makes may begin a program: fusion full, or fusible.
enum class Heads { joined, apart };

/// The schedule, in which small ops between steps that are computed by rows (a constant, say) run
/// before these, where they read nothing of them; the steps of one kernel in it.
[[nodiscard]] FusedSchedule with_rows_adjacent(const LivenessTable& table, FusedSchedule given,
                                               Heads heads = Heads::joined);

struct RowPrograms {
  FusedSteps fused = {};            // with the sums that were there before
  std::vector<RowRun> runs = {};    // in the schedule's order
  std::vector<int64_t> bytes = {};  // by run: in use while it runs
};

/// `fused`: sums of one kernel in this schedule, or empty; they stay. `live`: the schedule's with
/// these; its load is no more than `most_bytes`. Steps stay where they are. The longest program is
/// taken that begins at a step and fits. O(steps + operands) beside the programs.
[[nodiscard]] RowPrograms fuse_rows(const LivenessTable& table, IndexSpan<const OpId> schedule,
                                    const FusedSteps& fused, const Liveness& live,
                                    int64_t most_bytes, Heads heads = Heads::joined);

/// Those in which no more bytes are in use: where fewer ranges are longer, there is more room.
[[nodiscard]] RowPrograms programs_within(const RowPrograms& all, int64_t most_bytes);

}  // namespace snug::plan
