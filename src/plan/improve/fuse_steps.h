// SPDX-License-Identifier: Apache-2.0
// Steps of one kernel (Op::fusion). Sums of a recurrent net's gradients, say: one for each step of
// the net, each of which reads and writes the whole gradient of a weight. Those of several steps
// are one product that reads and writes it once, if what it multiplies is still there.
#pragma once

#include <cstdint>
#include <vector>

#include "base/index_vector.h"
#include "plan/problem/liveness.h"

namespace snug::plan {

struct FusedSchedule {
  std::vector<OpId> schedule;
  FusedSteps fused;  // empty where nothing is
};

/// Ops of one kind wait for the next of it, in their order, so that they run in adjacent steps: as
/// many as a kernel takes, as long as nothing that they read or write is written in between, and as
/// the bytes that their operands take meanwhile stay within `most_bytes`. `live`: of this schedule,
/// in which no step is fused; its load is no more than `most_bytes`. O(steps + operands) times how
/// many one kernel takes.
[[nodiscard]] FusedSchedule fuse_steps(const Problem& problem, IndexSpan<const OpId> schedule,
                                       Liveness live, int64_t most_bytes);

}  // namespace snug::plan
