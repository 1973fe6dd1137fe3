// SPDX-License-Identifier: Apache-2.0
// The constructive steps of the search over retention: which gap between two uses of a storage is
// dropped first, and which repeated run is taken out again where there is room. All are judged by
// the exact state.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/graphs/retention.h"

namespace snug::plan {

/// The time between two neighbouring touches of a storage; no storage where there is none.
struct Gap {
  ArenaId storage;
  int32_t begin = 0;
  int32_t end = 0;
};

/// The gap that has `stage` strictly inside (or at its end, where that is permitted), or none.
[[nodiscard]] Gap gap_through(const Retention& state, ArenaId storage, int32_t stage,
                              bool may_end_there = false);

/// Storages that a search may drop: of some bytes, read by something, made by an op that may run
/// again.
[[nodiscard]] std::vector<ArenaId> droppable(const StageGraph& graph);

/// What is needed of a repeated run's outputs stays from before, so that the run is superfluous.
/// False where no schedule does so; take the change back then.
[[nodiscard]] bool keep_outputs(const StageGraph& graph, Retention& state, int32_t op,
                                int32_t stage);

/// Whether there may be room for that between the two uses, once what only this run asks for is
/// gone; a try tells whether there really is. Never false where there is.
[[nodiscard]] bool may_keep_outputs(const StageGraph& graph, const Retention& state, int32_t op,
                                    int32_t stage);

/// The mean cost of what makes them, the unit of temperatures; 1 where they cost nothing.
[[nodiscard]] double mean_cost(const StageGraph& graph, const std::vector<ArenaId>& storages);

inline constexpr int64_t kMostGreedyWork = 300'000'000;
/// Drops gaps, least cost per byte of overflow first, until the limit holds; false where it got
/// stuck, or where that takes more work.
bool drop_until_fits(Retention& state, const std::vector<ArenaId>& storages,
                     int64_t most_work = kMostGreedyWork);

/// Drops all that is live but unused at the worst stage, stage after stage; false where it got
/// stuck.
bool clear_peaks(const StageGraph& graph, Retention& state, const std::vector<ArenaId>& storages);

/// Takes out repeated runs while the limit holds, most cost per byte and stage first, in at most so
/// much work (Retention::work), and while that costs no less than `least_cost`. `on_step` sees the
/// state after each.
struct FillLimits {
  int64_t work = INT64_MAX;
  double least_cost = 0;  // Retention::extra_cost
  std::function<void()> on_step = [] {};
};
void fill_room(const StageGraph& graph, Retention& state, const FillLimits& limits = {});

/// Lowers the peak to the state's limit, by 5 % at a time and later by less: `reach` changes the
/// state until it fits a limit on the way and tells whether it does; `try_harder` tells after a
/// failure whether the same step is worth another try; `is_over` whether time is up. Ends in the
/// smallest state that was reached; true if that fits. On the way the target is unknown, so what
/// reaches one reaches every larger one.
template <class Reach, class TryHarder, class IsOver>
[[nodiscard]] bool lower_peak_by_steps(Retention& state, Reach reach, TryHarder try_harder,
                                       IsOver is_over) {
  constexpr double kFirstShare = 0.05;  // of the peak
  constexpr double kLastShare = 0.002;
  const int64_t limit = state.limit_bytes();
  Retention::Snapshot smallest = state.snapshot();
  int64_t peak = state.peak();
  const auto come_back = [&] {
    state.set_limit(peak);
    state.restore(smallest);
  };
  double share = kFirstShare;
  while (peak > limit && share >= kLastShare && !is_over()) {
    state.set_limit(static_cast<int64_t>(static_cast<double>(peak) * (1 - share)));
    if (reach()) {
      smallest = state.snapshot();
      peak = state.peak();
      continue;
    }
    come_back();
    if (!try_harder()) share /= 2;
  }
  come_back();
  state.set_limit(limit);
  return peak <= limit;
}

}  // namespace snug::plan
