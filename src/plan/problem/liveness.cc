// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/liveness.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/id_vector.h"
#include "base/index_vector.h"
#include "base/stop.h"

namespace snug::plan {

std::vector<OpId> given_order(const Problem& problem) {
  const IdRange<OpId> ids = problem.ops.ids();
  return {ids.begin(), ids.end()};
}

int64_t scratch_bytes_of(const Problem& problem, IndexSpan<const OpId> schedule,
                         const FusedSteps& fused, int32_t step) {
  if (is_fused(fused, step)) return 0;
  const OpId id = schedule[step];
  const Op& op = problem.ops[id];
  return is_fused(fused, step + 1) ? op.fusion.scratch_bytes : op.scratch_bytes;
}

Liveness analyse(const Problem& problem, IndexSpan<const OpId> schedule, const FusedSteps& fused) {
  Liveness result;
  result.ranges.reserve(schedule.size() * 2);
  const auto steps = static_cast<int32_t>(schedule.size());
  IdVector<StorageId, int32_t> current(problem.storages.size(),
                                       -1);  // the newest instance of each storage
  IdVector<OpId, int32_t> runs(problem.ops.size(), 0);
  IdVector<OpId, int32_t> fused_runs(problem.ops.size(), 0);
  std::vector<std::pair<int32_t, int32_t>> taken;  // a range and the one whose place it takes
  IndexVector<int64_t> wider(schedule.size(),
                             0);  // bytes of overwritten inputs beyond the outputs'
  int32_t loss_step = steps;
  const auto is_forward = [&](int32_t step) {
    const OpId id = schedule[step];
    return problem.ops[id].phase == Phase::forward;
  };
  SparseStopPoint<64> stop_now_and_then;
  int32_t kernel_end = 0;  // the last step of this step's kernel
  for (int32_t step = 0; step < steps; ++step) {
    stop_now_and_then();
    const OpId id = schedule[step];
    const Op& op = problem.ops[id];
    ++(is_fused(fused, step) ? fused_runs : runs)[id];
    kernel_end = std::max(kernel_end, step);
    while (is_fused(fused, kernel_end + 1)) ++kernel_end;
    for (const StorageId input : op.inputs) {
      if (problem.storages[input].resident) continue;
      const int32_t instance = current[input];
      SNUG_CHECK(instance >= 0, op.name + " reads what no step has made");
      LiveRange& read = result.ranges[instance];
      read.last = kernel_end;
      if (loss_step == steps && op.phase == Phase::backward && is_forward(read.first))
        loss_step = step;
    }
    for (const StorageId output : op.outputs) {
      const Storage& storage = problem.storages[output];
      if (storage.resident) continue;
      SNUG_CHECK(storage.view_of == kNone, "a joint graph is measured as a plain problem");
      current[output] = static_cast<int32_t>(result.ranges.size());
      result.ranges.push_back({output, step, step, storage.bytes, kNone});
    }
    for (const auto& [output, input] : op.reuses) {
      LiveRange& before = result.ranges[current[input]];
      before.last = step - 1;  // from here on its place is the output's
      wider[step] += std::max<int64_t>(0, before.bytes - problem.storages[output].bytes);
      taken.emplace_back(current[output], current[input]);
      current[input] = -1;
    }
    const int64_t scratch = scratch_bytes_of(problem, schedule, fused, step);
    if (scratch > 0) result.ranges.push_back({kNone, step, kernel_end, scratch, id});
    if (op.scratch_bytes < 0) wider[step] += op.scratch_bytes;
  }
  result.place_of.assign(result.ranges.size(), -1);
  for (const auto& [range, place] : taken) result.place_of[range] = place;
  for (const StorageId kept : problem.keep) {
    const int32_t instance = current[kept];
    if (instance >= 0) result.ranges[instance].last = steps - 1;
  }

  for (const LiveRange& range : result.ranges) {
    if (range.first < loss_step && range.last >= loss_step) result.kept_bytes += range.bytes;
  }
  for (const auto& [range, place] : taken) {
    if (result.ranges[range].first == loss_step) result.kept_bytes += result.ranges[place].bytes;
  }
  // Summed in the order of the ops, so that the same runs in another order give the same number to
  // the bit.
  for (const OpId id : runs.ids()) {
    const Op& op = problem.ops[id];
    result.seconds += runs[id] * op.seconds + fused_runs[id] * op.fusion.seconds;
  }
  result.seconds += static_cast<double>(result.kept_bytes) * problem.kept_seconds_per_byte;

  IndexVector<int64_t> change(schedule.size() + 1, 0);
  for (const LiveRange& range : result.ranges) {
    change[range.first] += range.bytes;
    change[range.last + 1] -= range.bytes;
  }
  result.step_bytes.resize(schedule.size());
  int64_t in_use = 0;
  for (int32_t step = 0; step < steps; ++step) {
    in_use += change[step];
    const int64_t bytes = in_use + wider[step];
    result.step_bytes[step] = bytes;
    if (bytes > result.load_bytes) {
      result.load_bytes = bytes;
      result.peak_step = step;
    }
  }
  return result;
}

}  // namespace snug::plan
