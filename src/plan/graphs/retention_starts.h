// SPDX-License-Identifier: Apache-2.0
// Where a search over retention begins: states near the limit that come from elsewhere. What a cut
// of the bound keeps at one moment is the best that can be kept then by that price per byte; a
// schedule of the chain's table knows nested recomputation, which no cut does. Each is brought
// within the limit and what room is left is filled.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/graphs/random.h"
#include "plan/graphs/retention.h"

namespace snug::plan {

/// From keep-all, nothing but `kept` stays in memory across the first run of the op at `stage`:
/// what is not kept is made again where it is read next. False, and keep-all again, where no
/// schedule is so.
[[nodiscard]] bool keep_across(const StageGraph& graph, Retention& state,
                               std::span<const ArenaId> droppable, int32_t stage,
                               std::span<const StorageId> kept);

struct StartLimits {
  int32_t cuts = 0;  // that are tried for each moment, those nearest to the limit
  int64_t work = 0;  // Retention::work of all together; at least one start is tried
  double mean_cost = 1;
  /// Drafts that cost so many times what the best start does are left out: they take longest to
  /// fill, and end where others begin.
  double dearest = 1e300;
};

struct Start {
  Retention::Snapshot state;
  int64_t peak_bytes = 0;
};

/// Cheapest first: what was reached within the limit, from the schedules and from cuts at the loss
/// and at the fullest stage of keep-all.
[[nodiscard]] std::vector<Start> find_starts(const ProblemIndex& index, const StageGraph& graph,
                                             Retention& state,
                                             const std::vector<ArenaId>& droppable,
                                             std::span<const std::vector<OpId>> schedules,
                                             Random& random, const StartLimits& limits);

}  // namespace snug::plan
