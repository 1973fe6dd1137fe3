// SPDX-License-Identifier: Apache-2.0
#include "plan/placement/assemble.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/id_vector.h"
#include "base/index_vector.h"
#include "base/stop.h"
#include "plan/problem/liveness.h"
#include "plan/problem/row_runs.h"
#include "plan/problem/validate.h"

namespace snug::plan {

namespace {

constexpr double kNearLoad = 1.0015;    // of the load: another placement hardly comes nearer
constexpr double kFarFromLoad = 1.005;  // from beyond, many ranges hardly get there
constexpr size_t kMany = 4'000;
constexpr size_t kMostTwice = 60'000;  // ranges that are worth another placement

// Where an output need not lie in its input's place, since the load leaves room for both, the two
// become ranges of their own: sometimes short ranges are easier to place than long ones.
Liveness separated(Liveness live) {
  for (size_t i = 0; i < live.ranges.size(); ++i) {
    if (live.place_of[i] < 0) continue;
    LiveRange& before = live.ranges[live.place_of[i]];
    const int32_t first = live.ranges[i].first;
    const int32_t last = live.read_until[i];
    const int64_t more = std::min(before.bytes, live.ranges[i].bytes);
    bool has_room = true;
    for (int32_t step = first; step <= last; ++step)
      has_room = has_room && more <= live.load_bytes - live.step_bytes[step];
    if (!has_room) continue;
    for (int32_t step = first; step <= last; ++step) live.step_bytes[step] += more;
    before.last = last;
    live.place_of[i] = -1;
  }
  return live;
}

// Offsets of all ranges. Those that hand their place on are one range to the placement.
Placement place_all(const Liveness& live, const PlacementLimits& limits) {
  IndexVector<LiveRange> places;
  IndexVector<size_t> place(live.ranges.size());
  for (size_t i = 0; i < live.ranges.size(); ++i) {
    stop_point();
    const LiveRange& range = live.ranges[i];
    if (live.place_of[i] < 0) {
      place[i] = places.size();
      places.push_back(range);
      continue;
    }
    place[i] = place[live.place_of[i]];
    LiveRange& whole = places[place[i]];
    whole.last = range.last;
    whole.bytes = std::max(whole.bytes, range.bytes);
  }
  const Placement placed = plan::place(places, limits);
  Placement all{std::vector<int64_t>(live.ranges.size()), placed.height};
  for (size_t i = 0; i < place.size(); ++i) all.offsets[i] = placed.offsets[place[i]];
  return all;
}

PlacedSchedule place_live(const Liveness& live, const PlacementLimits& limits) {
  PlacedSchedule placed{.placement = place_all(live, limits)};
  const double miss = static_cast<double>(placed.placement.height) /
                      std::max(1.0, static_cast<double>(live.load_bytes));
  if (live.ranges.size() <= kMostTwice && miss > kNearLoad &&
      (miss < kFarFromLoad || live.ranges.size() <= kMany)) {
    const Liveness apart = separated(live);
    if (apart.place_of != live.place_of) {
      Placement other = place_all(apart, limits);
      if (other.height < placed.placement.height) placed = {std::move(other), true};
    }
  }
  return placed;
}

Plan plan_of(const Problem& problem, IndexSpan<const OpId> schedule, const FusedSteps& fused,
             std::string strategy, Liveness live, PlacedSchedule placed) {
  if (placed.is_separated) live = separated(std::move(live));
  Placement& placement = placed.placement;
  Plan plan;
  plan.strategy = std::move(strategy);
  plan.arena_bytes = placement.height;
  plan.load_bytes = live.load_bytes;
  plan.peak_step = live.peak_step;
  plan.seconds = live.seconds;
  plan.steps.reserve(schedule.size());
  const std::vector<RowRun> runs = row_runs(problem, schedule, fused);
  auto next_run = runs.begin();
  const RowRun* run = nullptr;  // that the step is in
  // Ranges come in the order of the steps' outputs, scratch last: one cursor walks them.
  IdVector<StorageId, int64_t> current(problem.storages.size(), kResidentOffset);
  size_t next_range = 0;
  for (int32_t at = 0; std::cmp_less(at, schedule.size()); ++at) {
    stop_point();
    const OpId id = schedule[at];
    const Op& op = problem.ops[id];
    Step step;
    step.op = id;
    if (run != nullptr && at > run->last()) run = nullptr;
    if (next_run != runs.end() && next_run->first == at) run = &*next_run++;
    if (run != nullptr)
      step.saved_seconds = run->saved_seconds[static_cast<size_t>(at - run->first)];
    if (is_fused(fused, at)) {
      step.fused = fused[static_cast<size_t>(at)];
      step.scratch_offset = plan.steps[at - 1].scratch_offset;
    }
    step.input_offsets.reserve(op.inputs.size());
    step.output_offsets.reserve(op.outputs.size());
    for (const StorageId input : op.inputs) {
      step.input_offsets.push_back(current[input]);
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const StorageId output = op.outputs[i];
      if (!problem.storages[output].resident) {
        int64_t& offset = placement.offsets[next_range++];
        if (run != nullptr && run->is_inside(at, i)) offset = kInsideOffset;
        current[output] = offset;
      }
      step.output_offsets.push_back(current[output]);
    }
    const bool has_scratch = next_range < live.ranges.size() &&
                             live.ranges[next_range].is_scratch() &&
                             live.ranges[next_range].first == at;
    if (has_scratch) step.scratch_offset = placement.offsets[next_range++];
    plan.steps.push_back(std::move(step));
  }
  SNUG_CHECK(next_range == live.ranges.size(), "every range belongs to one step");
  plan.live_ranges = std::move(live.ranges);
  plan.offsets = std::move(placement.offsets);
#ifndef NDEBUG
  const auto violations = check(problem, plan);
  SNUG_CHECK(violations.empty(), violations.empty() ? "" : violations.front());
#endif
  return plan;
}

}  // namespace

PlacedSchedule place_schedule(const Problem& problem, IndexSpan<const OpId> schedule,
                              const FusedSteps& fused, const PlacementLimits& limits) {
  return place_live(analyse(problem, schedule, fused), limits);
}

Plan assemble(const Problem& problem, IndexSpan<const OpId> schedule, const FusedSteps& fused,
              std::string strategy, PlacedSchedule placed) {
  return plan_of(problem, schedule, fused, std::move(strategy), analyse(problem, schedule, fused),
                 std::move(placed));
}

Plan assemble(const Problem& problem, IndexSpan<const OpId> schedule, std::string strategy,
              const PlacementLimits& limits, const FusedSteps& fused) {
  Liveness live = analyse(problem, schedule, fused);
  PlacedSchedule placed = place_live(live, limits);
  return plan_of(problem, schedule, fused, std::move(strategy), std::move(live), std::move(placed));
}

}  // namespace snug::plan
