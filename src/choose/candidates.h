// SPDX-License-Identifier: Apache-2.0
// The ways to run: every schedule of every split, in order, and the fastest or the smallest of
// them. Placement waits until a candidate is asked for.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "choose/batch_split.h"

namespace snug::choose {

/// A split and one of its schedules.
struct Candidate {
  const BatchSplit* split = nullptr;
  size_t point = 0;  // of the split's frontier
  double step_seconds = 0;
  int64_t least_peak_bytes = 0;  // with the load in place of the arena
};

/// A candidate whose schedule was placed.
struct PlacedCandidate : Candidate {
  int64_t arena_bytes = 0;
  int64_t peak_bytes = 0;  // process + resident + arena

  [[nodiscard]] plan::Plan plan() const { return split->frontier->plan(point); }
  [[nodiscard]] bool is_same_as(const PlacedCandidate& other) const {
    return split == other.split && point == other.point;
  }
};

/// Every candidate of the splits, least seconds first, then least bytes.
[[nodiscard]] std::vector<Candidate> candidates_of(std::span<const BatchSplit> splits,
                                                   const RunPlanRequest& request);
[[nodiscard]] PlacedCandidate placed(const Candidate& candidate, const RunPlanRequest& request);
/// The first that fits the budget; nothing where none does.
[[nodiscard]] std::optional<PlacedCandidate> best_within(const std::vector<Candidate>& candidates,
                                                         const RunPlanRequest& request);
/// The one that needs the least memory.
[[nodiscard]] PlacedCandidate smallest_of(const std::vector<Candidate>& candidates,
                                          const RunPlanRequest& request);

}  // namespace snug::choose
