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

LivenessTable::LivenessTable(const Problem& problem)
    : problem_(problem), bytes_(problem.storages.size()) {
  size_t operands = 0;
  for (const Op& op : problem.ops) operands += op.inputs.size() + op.outputs.size();
  operands_.reserve(operands);  // spans refer to it
  ops_.reserve(problem.ops.size());
  for (const StorageId id : problem.storages.ids()) bytes_[id] = problem.storages[id].bytes;
  const auto without_residents = [&](const std::vector<StorageId>& all) {
    const size_t first = operands_.size();
    for (const StorageId id : all) {
      if (!problem.storages[id].resident) operands_.push_back(id);
    }
    return std::span<const StorageId>(operands_).subspan(first);
  };
  for (const Op& op : problem.ops) {
    OpEntry& entry = ops_.emplace_back();
    entry.inputs = without_residents(op.inputs);
    entry.outputs = without_residents(op.outputs);
    for (const StorageId output : entry.outputs)
      SNUG_CHECK(problem.storages[output].view_of == kNone,
                 "a joint graph is measured as a plain problem");
    entry.scratch_bytes = op.scratch_bytes;
    entry.seconds = op.seconds;
    entry.fused_seconds = op.fusion.seconds;
    entry.phase = op.phase;
    entry.has_reuses = !op.reuses.empty();
  }
}

namespace {

// The scratch of the step's kernel; 0 where the step before has it.
int64_t scratch_bytes_of(const Op& op, const FusedSteps& fused, int32_t step, const RowRun* run) {
  if (is_fused(fused, step)) return 0;
  if (run != nullptr) return run->scratch_bytes;
  return is_fused(fused, step + 1) ? op.fusion.scratch_bytes : op.scratch_bytes;
}

// Made where it lies: a copy reads in one piece what was just written in several, and waits for it.
LiveRange& add_range(std::vector<LiveRange>& ranges, StorageId storage, int32_t first, int32_t last,
                     int64_t bytes) {
  LiveRange& range = ranges.emplace_back();
  range.storage = storage;
  range.first = first;
  range.last = last;
  range.bytes = bytes;
  return range;
}

}  // namespace

Liveness analyse(const LivenessTable& table, IndexSpan<const OpId> schedule,
                 const FusedSteps& fused) {
  return analyse(table, schedule, fused, row_runs(table.problem(), schedule, fused));
}

Liveness analyse(const LivenessTable& table, IndexSpan<const OpId> schedule,
                 const FusedSteps& fused, const std::vector<RowRun>& programs) {
  const Problem& problem = table.problem();
  Liveness result;
  result.ranges.reserve(schedule.size() * 2);
  const auto steps = static_cast<int32_t>(schedule.size());
  IdVector<StorageId, int32_t> current(problem.storages.size(),
                                       -1);  // the newest instance of each storage
  IdVector<OpId, int32_t> runs(problem.ops.size(), 0);
  IdVector<OpId, int32_t> fused_runs(problem.ops.size(), 0);
  struct Taken {  // a range and the one whose place it takes, and the last step of the kernel
    int32_t range;
    int32_t place;
    int32_t last;
  };
  std::vector<Taken> taken;
  IndexVector<int64_t> wider(schedule.size(),
                             0);  // bytes of overwritten inputs beyond the outputs'
  int32_t loss_step = steps;
  const auto is_forward = [&](int32_t step) {
    const OpId id = schedule[step];
    return table.op(id).phase == Phase::forward;
  };
  SparseStopPoint<64> stop_now_and_then;
  auto next_run = programs.begin();
  const RowRun* run = nullptr;  // that the step is in
  int32_t kernel_end = 0;       // the last step of this step's kernel
  for (int32_t step = 0; step < steps; ++step) {
    stop_now_and_then();
    const OpId id = schedule[step];
    const LivenessTable::OpEntry& op = table.op(id);
    if (run != nullptr && step > run->last()) run = nullptr;
    if (next_run != programs.end() && next_run->first == step) run = &*next_run++;
    const bool is_next_sum = is_fused(fused, step) && run == nullptr;
    ++(is_next_sum ? fused_runs : runs)[id];
    kernel_end = std::max(kernel_end, step);
    while (is_fused(fused, kernel_end + 1)) ++kernel_end;
    for (const StorageId input : op.inputs) {
      const int32_t instance = current[input];
      SNUG_CHECK(instance >= 0, problem.ops[id].name + " reads what no step has made");
      LiveRange& read = result.ranges[instance];
      read.last = kernel_end;
      if (loss_step == steps && op.phase == Phase::backward && is_forward(read.first))
        loss_step = step;
    }
    const int32_t first = run != nullptr ? run->first : step;
    const int32_t last = run != nullptr ? kernel_end : step;
    const auto make = [&](StorageId output, int64_t bytes) {
      current[output] = static_cast<int32_t>(result.ranges.size());
      add_range(result.ranges, output, first, last, bytes);
    };
    if (run == nullptr) {
      for (const StorageId output : op.outputs) make(output, table.bytes(output));
    } else {
      const std::vector<StorageId>& outputs = problem.ops[id].outputs;
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (!problem.storages[outputs[i]].resident)
          make(outputs[i], run->is_inside(step, i) ? 0 : table.bytes(outputs[i]));
      }
    }
    // From here on the place of the input is the output's.
    const auto hand_on = [&](StorageId output, StorageId input) {
      LiveRange& before = result.ranges[current[input]];
      before.last = first - 1;
      for (int32_t at = first; at <= last; ++at)
        wider[at] += std::max<int64_t>(0, before.bytes - table.bytes(output));
      taken.push_back({current[output], current[input], last});
      current[input] = -1;
    };
    if (run == nullptr && op.has_reuses) {
      for (const auto& [output, input] : problem.ops[id].reuses) hand_on(output, input);
    } else if (run != nullptr && step == run->last()) {
      for (const auto& [output, input] : run->places) hand_on(output, input);
    }
    const int64_t scratch =
        fused.empty() ? op.scratch_bytes : scratch_bytes_of(problem.ops[id], fused, step, run);
    if (scratch > 0) add_range(result.ranges, kNone, step, kernel_end, scratch).scratch_of = id;
    if (op.scratch_bytes < 0) wider[step] += op.scratch_bytes;
  }
  result.place_of.assign(result.ranges.size(), -1);
  result.read_until.assign(result.ranges.size(), -1);
  for (const Taken& each : taken) {
    result.place_of[each.range] = each.place;
    result.read_until[each.range] = each.last;
  }
  for (const StorageId kept : problem.keep) {
    const int32_t instance = current[kept];
    if (instance >= 0) result.ranges[instance].last = steps - 1;
  }

  for (const LiveRange& range : result.ranges) {
    if (range.first < loss_step && range.last >= loss_step) result.kept_bytes += range.bytes;
  }
  for (const Taken& each : taken) {
    if (result.ranges[each.range].first == loss_step)
      result.kept_bytes += result.ranges[each.place].bytes;
  }
  // Summed in the order of the ops, so that the same runs in another order give the same number to
  // the bit.
  for (const OpId id : runs.ids()) {
    const LivenessTable::OpEntry& op = table.op(id);
    result.seconds += runs[id] * op.seconds + fused_runs[id] * op.fused_seconds;
  }
  for (const RowRun& each : programs) {
    for (const double saved : each.saved_seconds) result.seconds -= saved;
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
