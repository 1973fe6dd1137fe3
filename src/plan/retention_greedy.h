// SPDX-License-Identifier: Apache-2.0
// The constructive steps of the search over retention: which gap between two uses of a storage is
// dropped first, and which repeated run is taken out again where there is room. All are judged by
// the exact state.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/retention.h"

namespace snug::plan {

/// The time between two neighbouring touches of a storage; storage -1 where there is none.
struct Gap {
  int32_t storage = -1;
  int32_t begin = 0;
  int32_t end = 0;
};

/// The gap that has `stage` strictly inside (or at its end, where that is permitted), or none.
[[nodiscard]] Gap gap_through(const Retention& state, int32_t storage, int32_t stage,
                              bool may_end_there = false);

/// Storages that a search may drop: of some bytes, read by something, made by an op that may run
/// again.
[[nodiscard]] std::vector<int32_t> droppable(const StageGraph& graph);

/// What is needed of a repeated run's outputs stays from before, so that the run is superfluous.
/// False where no schedule does so; take the change back then.
[[nodiscard]] bool keep_outputs(const StageGraph& graph, Retention& state, int32_t op,
                                int32_t stage);

/// Drops gaps, least cost per byte of overflow first, until the limit holds; false where it got
/// stuck.
bool drop_until_fits(Retention& state, const std::vector<int32_t>& storages);

/// Drops all that is live but unused at the worst stage, stage after stage; false where it got
/// stuck.
bool clear_peaks(const StageGraph& graph, Retention& state, const std::vector<int32_t>& storages);

/// Takes out repeated runs while the limit holds, most cost per byte and stage first.
void fill_room(const StageGraph& graph, Retention& state);

}  // namespace snug::plan
