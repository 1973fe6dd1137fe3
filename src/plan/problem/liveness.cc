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

namespace {

// The scratch of the step's kernel; 0 where the step before has it.
int64_t scratch_bytes_of(const Op& op, const FusedSteps& fused, int32_t step, const RowRun* run) {
  if (is_fused(fused, step)) return 0;
  if (run != nullptr) return run->scratch_bytes;
  return is_fused(fused, step + 1) ? op.fusion.scratch_bytes : op.scratch_bytes;
}

// Summed in the order of the ops, so that the same runs in another order give the same number to
// the bit.
double seconds_of_runs(const LivenessTable& table, const IdVector<OpId, int32_t>& runs,
                       const IdVector<OpId, int32_t>& fused_runs) {
  double seconds = 0;
  for (const OpId id : runs.ids()) {
    const LivenessTable::OpEntry& op = table.op(id);
    seconds += runs[id] * op.seconds + fused_runs[id] * op.fused_seconds;
  }
  return seconds;
}

double seconds_of_kept(const LivenessTable& table, int64_t bytes) {
  return static_cast<double>(bytes) * table.problem().kept_seconds_per_byte;
}

// Goes through a schedule once. Every storage has one instance at a time, so that what is known of
// it stays close by; its bytes are counted when it ends.
class LivenessWalk {
 public:
  // `all`: gets every instance; null: nobody asks for them.
  LivenessWalk(const LivenessTable& table, IndexSpan<const OpId> schedule, const FusedSteps& fused,
               const std::vector<RowRun>& programs, Liveness* all)
      : table_(table),
        problem_(table.problem()),
        schedule_(schedule),
        fused_(fused),
        programs_(programs),
        next_run_(programs.begin()),
        steps_(static_cast<int32_t>(schedule.size())),
        newest_(problem_.storages.size()),
        runs_(problem_.run_count(), 0),
        fused_runs_(problem_.run_count(), 0),
        change_(schedule.size() + 1, 0),
        wider_(schedule.size(), 0),
        loss_step_(steps_),
        all_(all) {
    if (all_ == nullptr) return;
    all_->ranges.reserve(schedule.size() * 2);
    range_of_.resize(problem_.storages.size());
  }

  StepLoads run() {
    SparseStopPoint<64> stop_now_and_then;
    for (int32_t step = 0; step < steps_; ++step) {
      stop_now_and_then();
      enter(step);
      const OpId id = schedule_[step];
      const LivenessTable::OpEntry& op = table_.op(id);
      for (const StorageId input : op.inputs) read(input, op.phase, step, id);
      make_outputs(op, id, step);
      if (run_ == nullptr && op.has_reuses) {
        for (const auto& [output, input] : problem_.ops[id].reuses) hand_on(output, input, step);
      } else if (run_ != nullptr && step == run_->last()) {
        for (const auto& [output, input] : run_->places) hand_on(output, input, run_->first);
      }
      add_scratch(op, id, step);
    }
    for (const StorageId kept : problem_.keep) {
      if (newest_[kept].is_live()) newest_[kept].last = steps_ - 1;
    }
    for (const StorageId id : problem_.storages.ids()) {
      if (newest_[id].is_live()) end(id);
    }
    if (all_ != nullptr) tell_places();
    return result();
  }

 private:
  struct Instance {
    int32_t first = -1;
    int32_t last = -1;
    int64_t bytes = 0;
    [[nodiscard]] bool is_live() const { return first >= 0; }
  };
  struct Taken {  // a place that is handed on, in which steps, and the two ranges
    int64_t bytes;
    int32_t first;
    int32_t last;
    int32_t range;
    int32_t place;
  };
  struct Scratch {
    int32_t first;
    int32_t last;
    int64_t bytes;
  };

  // The kernel that the step is in.
  void enter(int32_t step) {
    if (run_ != nullptr && step > run_->last()) run_ = nullptr;
    if (next_run_ != programs_.end() && next_run_->first == step) run_ = &*next_run_++;
    const bool is_next_sum = is_fused(fused_, step) && run_ == nullptr;
    ++(is_next_sum ? fused_runs_ : runs_)[schedule_[step]];
    kernel_end_ = std::max(kernel_end_, step);
    while (is_fused(fused_, kernel_end_ + 1)) ++kernel_end_;
  }

  [[nodiscard]] bool is_forward(int32_t step) const {
    return table_.op(schedule_[step]).phase == Phase::forward;
  }

  void read(StorageId input, Phase phase, int32_t step, OpId id) {
    Instance& instance = newest_[input];
    SNUG_CHECK(instance.is_live(), problem_.run(id).name + " reads what no step has made");
    instance.last = kernel_end_;
    if (loss_step_ == steps_ && phase == Phase::backward && is_forward(instance.first))
      loss_step_ = step;
  }

  void make_outputs(const LivenessTable::OpEntry& op, OpId id, int32_t step) {
    if (run_ == nullptr) {
      for (const StorageId output : op.outputs) make(output, step, step, table_.bytes(output));
      return;
    }
    const std::vector<StorageId>& outputs = problem_.ops[id].outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const StorageId output = outputs[i];
      if (problem_.storages[output].resident) continue;
      make(output, run_->first, kernel_end_, run_->is_inside(step, i) ? 0 : table_.bytes(output));
    }
  }

  void make(StorageId id, int32_t first, int32_t last, int64_t bytes) {
    Instance& instance = newest_[id];
    if (instance.is_live()) end(id);
    instance.first = first;
    instance.last = last;
    instance.bytes = bytes;
    if (all_ == nullptr) return;
    range_of_[id] = static_cast<int32_t>(all_->ranges.size());
    add_range(id, first, last, bytes);
  }

  // From the step on the place of the input is the output's.
  void hand_on(StorageId output, StorageId input, int32_t first) {
    Instance& before = newest_[input];
    const int32_t last = run_ != nullptr ? kernel_end_ : first;
    before.last = first - 1;
    for (int32_t at = first; at <= last; ++at)
      wider_[at] += std::max<int64_t>(0, before.bytes - table_.bytes(output));
    taken_.push_back({before.bytes, first, last, -1, -1});
    if (all_ != nullptr) {
      taken_.back().range = range_of_[output];
      taken_.back().place = range_of_[input];
    }
    end(input);
  }

  void add_scratch(const LivenessTable::OpEntry& op, OpId id, int32_t step) {
    const int64_t scratch =
        fused_.empty() ? op.scratch_bytes : scratch_bytes_of(problem_.run(id), fused_, step, run_);
    if (op.scratch_bytes < 0) wider_[step] += op.scratch_bytes;
    if (scratch <= 0) return;
    count(step, kernel_end_, scratch);
    // Where it lives across the loss is known behind it.
    if (kernel_end_ > step) long_scratch_.push_back({step, kernel_end_, scratch});
    if (all_ != nullptr) add_range(kNone, step, kernel_end_, scratch).scratch_of = id;
  }

  void count(int32_t first, int32_t last, int64_t bytes) {
    change_[first] += bytes;
    change_[last + 1] -= bytes;
  }
  [[nodiscard]] int64_t kept_bytes(int32_t first, int32_t last, int64_t bytes) const {
    return first < loss_step_ && last >= loss_step_ ? bytes : 0;
  }

  void end(StorageId id) {
    Instance& instance = newest_[id];
    count(instance.first, instance.last, instance.bytes);
    // What ends before the loss is found ends before the loss.
    kept_bytes_ += kept_bytes(instance.first, instance.last, instance.bytes);
    instance.first = -1;
    if (all_ != nullptr) all_->ranges[range_of_[id]].last = instance.last;
  }

  // Made where it lies: a copy reads in one piece what was just written in several, and waits.
  LiveRange& add_range(StorageId id, int32_t first, int32_t last, int64_t bytes) {
    LiveRange& range = all_->ranges.emplace_back();
    range.storage = id;
    range.first = first;
    range.last = last;
    range.bytes = bytes;
    return range;
  }

  void tell_places() {
    all_->place_of.assign(all_->ranges.size(), -1);
    all_->read_until.assign(all_->ranges.size(), -1);
    for (const Taken& each : taken_) {
      all_->place_of[each.range] = each.place;
      all_->read_until[each.range] = each.last;
    }
  }

  StepLoads result() {
    StepLoads found;
    found.kept_bytes = kept_bytes_;
    for (const Scratch& each : long_scratch_)
      found.kept_bytes += kept_bytes(each.first, each.last, each.bytes);
    for (const Taken& each : taken_) {
      if (each.first == loss_step_) found.kept_bytes += each.bytes;
    }
    found.seconds = seconds_of_runs(table_, runs_, fused_runs_);
    for (const RowRun& each : programs_) {
      for (const double saved : each.saved_seconds) found.seconds -= saved;
    }
    found.seconds += seconds_of_kept(table_, found.kept_bytes);
    int64_t in_use = 0;
    for (int32_t step = 0; step < steps_; ++step) {
      in_use += change_[step];
      const int64_t bytes = in_use + wider_[step];
      wider_[step] = bytes;
      if (bytes > found.load_bytes) {
        found.load_bytes = bytes;
        found.peak_step = step;
      }
    }
    found.step_bytes = std::move(wider_);
    return found;
  }

  const LivenessTable& table_;
  const Problem& problem_;
  IndexSpan<const OpId> schedule_;
  const FusedSteps& fused_;
  const std::vector<RowRun>& programs_;
  std::vector<RowRun>::const_iterator next_run_;
  const RowRun* run_ = nullptr;  // that the step is in
  int32_t steps_;
  int32_t kernel_end_ = 0;  // the last step of this step's kernel
  IdVector<StorageId, Instance> newest_;
  IdVector<OpId, int32_t> runs_;
  IdVector<OpId, int32_t> fused_runs_;
  IndexVector<int64_t> change_;  // by step
  IndexVector<int64_t> wider_;   // by step: bytes of overwritten inputs beyond the outputs'
  std::vector<Taken> taken_;
  std::vector<Scratch> long_scratch_;
  int32_t loss_step_;
  int64_t kept_bytes_ = 0;
  Liveness* all_;
  IdVector<StorageId, int32_t> range_of_;
};

}  // namespace

StepLoads loads_of(const LivenessTable& table, IndexSpan<const OpId> schedule,
                   const FusedSteps& fused, const std::vector<RowRun>& programs) {
  return LivenessWalk(table, schedule, fused, programs, nullptr).run();
}

StepLoads loads_of(const LivenessTable& table, IndexSpan<const OpId> schedule,
                   const FusedSteps& fused) {
  return loads_of(table, schedule, fused, row_runs(table, schedule, fused));
}

Liveness analyse(const LivenessTable& table, IndexSpan<const OpId> schedule,
                 const FusedSteps& fused) {
  Liveness all;
  static_cast<StepLoads&>(all) =
      LivenessWalk(table, schedule, fused, row_runs(table, schedule, fused), &all).run();
  return all;
}

double seconds_of(const LivenessTable& table, IndexSpan<const OpId> schedule, int64_t kept_bytes) {
  IdVector<OpId, int32_t> runs(table.problem().run_count(), 0);
  const IdVector<OpId, int32_t> fused_runs(runs.size(), 0);
  for (const OpId id : schedule) ++runs[id];
  return seconds_of_runs(table, runs, fused_runs) + seconds_of_kept(table, kept_bytes);
}

}  // namespace snug::plan
