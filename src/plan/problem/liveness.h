// SPDX-License-Identifier: Apache-2.0
// Exact liveness of a schedule. A storage instance lives from the step that makes it to its last
// use before it is made again; one that is never used lives for its own step; what the problem
// keeps lives to the end.
#pragma once

#include <cstdint>
#include <vector>

#include "base/index_vector.h"
#include "plan/problem/liveness_table.h"
#include "plan/problem/plan.h"
#include "plan/problem/row_runs.h"

namespace snug::plan {

/// The bytes in use in a schedule.
struct StepLoads {
  IndexVector<int64_t> step_bytes;  // at each step
  int64_t load_bytes = 0;           // the largest of step_bytes
  int32_t peak_step = 0;            // the first step that reaches it
  int64_t kept_bytes = 0;  // live across the loss: before the first backward step that reads what
                           // a forward step made
  double seconds = 0;      // of all steps, and of what is kept
};

/// Every instance as well. Ranges are ordered by first step, then output order, scratch last.
struct Liveness : StepLoads {
  IndexVector<LiveRange> ranges;
  /// By range: the range in whose place it is written (Op::reuses; that one ends a step before it
  /// begins), or -1.
  IndexVector<int32_t> place_of;
  /// By range with such a place: the last step of its kernel, until which that one may be read.
  IndexVector<int32_t> read_until;
};

/// Returns the liveness of `schedule` (op ids in the order of execution, repeats allowed). The
/// schedule must make every storage before it is read; anything else is a bug of the caller.
/// Negative scratch is taken off what the op's operands count (plain_problem.h).
/// Steps of one kernel (`fused`) read all they read until the last of them, and have one scratch,
/// which is the first one's range. The steps of a row program make all they make at the first of
/// them; what is never in memory has no bytes (row_runs.h).
/// O(steps + operands).
[[nodiscard]] Liveness analyse(const LivenessTable& table, IndexSpan<const OpId> schedule,
                               const FusedSteps& fused = {});
/// The same without the instances, in half the time.
[[nodiscard]] StepLoads loads_of(const LivenessTable& table, IndexSpan<const OpId> schedule,
                                 const FusedSteps& fused = {});
/// The same where the row programs are known.
[[nodiscard]] StepLoads loads_of(const LivenessTable& table, IndexSpan<const OpId> schedule,
                                 const FusedSteps& fused, const std::vector<RowRun>& programs);

/// StepLoads::seconds of a schedule without fused steps whose kept bytes are known.
[[nodiscard]] double seconds_of(const LivenessTable& table, IndexSpan<const OpId> schedule,
                                int64_t kept_bytes);

[[nodiscard]] inline bool is_fused(const FusedSteps& fused, int32_t step) {
  const auto at = static_cast<size_t>(step);
  return at < fused.size() && fused[at] != Fused::no;
}

/// The order of the problem itself: keep everything that is used later.
[[nodiscard]] std::vector<OpId> given_order(const Problem& problem);

}  // namespace snug::plan
