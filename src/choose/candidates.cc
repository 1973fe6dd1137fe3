// SPDX-License-Identifier: Apache-2.0
#include "choose/candidates.h"

#include <algorithm>

namespace snug::choose {

std::vector<Candidate> candidates_of(std::span<const BatchSplit> splits,
                                     const RunPlanRequest& request) {
  std::vector<Candidate> all;
  for (const BatchSplit& split : splits) {
    const auto& points = split.frontier->points();
    for (size_t i = 0; i < points.size(); ++i) {
      all.push_back({.split = &split,
                     .point = i,
                     .step_seconds = step_seconds_of(split, points[i].seconds),
                     .least_peak_bytes = peak_bytes(split, points[i].load_bytes, request)});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.step_seconds != b.step_seconds ? a.step_seconds < b.step_seconds
                                            : a.least_peak_bytes < b.least_peak_bytes;
  });
  return all;
}

PlacedCandidate placed(const Candidate& candidate, const RunPlanRequest& request) {
  const BatchSplit& split = *candidate.split;
  const int64_t arena_bytes = split.frontier->arena_bytes(candidate.point);
  return {candidate, std::max(arena_bytes, split.other_arena_bytes),
          peak_bytes(split, arena_bytes, request)};
}

std::optional<PlacedCandidate> best_within(const std::vector<Candidate>& candidates,
                                           const RunPlanRequest& request) {
  for (const Candidate& candidate : candidates) {
    if (candidate.least_peak_bytes > request.budget_bytes) continue;
    const PlacedCandidate found = placed(candidate, request);
    if (found.peak_bytes <= request.budget_bytes) return found;
  }
  return std::nullopt;
}

PlacedCandidate smallest_of(const std::vector<Candidate>& candidates,
                            const RunPlanRequest& request) {
  // What the start of the program needs is a floor: within it the fastest is the smallest.
  RunPlanRequest at_floor = request;
  at_floor.budget_bytes = request.startup_bytes;
  if (const auto within = best_within(candidates, at_floor)) return *within;
  // The faster of equal ones first: where it reaches its load, the slower, which leaves room, need
  // not be placed.
  std::vector<Candidate> rising = candidates;
  std::stable_sort(rising.begin(), rising.end(), [](const Candidate& a, const Candidate& b) {
    return a.least_peak_bytes < b.least_peak_bytes;
  });
  PlacedCandidate best = placed(rising.front(), request);
  for (const Candidate& candidate : rising) {
    if (candidate.least_peak_bytes > best.peak_bytes) break;
    if (candidate.least_peak_bytes == best.peak_bytes &&
        candidate.step_seconds >= best.step_seconds)
      continue;
    const PlacedCandidate found = placed(candidate, request);
    if (found.peak_bytes < best.peak_bytes ||
        (found.peak_bytes == best.peak_bytes && found.step_seconds < best.step_seconds))
      best = found;
  }
  return best;
}

}  // namespace snug::choose
