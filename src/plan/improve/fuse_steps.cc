// SPDX-License-Identifier: Apache-2.0
#include "plan/improve/fuse_steps.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "base/id_vector.h"
#include "base/stop.h"

namespace snug::plan {
namespace {

using Slots = uint64_t;  // a bit for each kind
constexpr size_t kMostKinds = 64;

class Fuser {
 public:
  Fuser(const Problem& problem, IndexSpan<const OpId> schedule, Liveness live, int64_t most_bytes)
      : problem_(problem),
        schedule_(schedule),
        most_bytes_(most_bytes),
        ranges_(std::move(live.ranges)),
        bytes_(std::move(live.step_bytes)),
        newest_(problem.storages.size(), -1),
        read_by_(problem.storages.size(), 0),
        written_by_(problem.storages.size(), 0),
        runs_at_(schedule.size(), 0) {}

  FusedSchedule run() {
    const auto steps = static_cast<int32_t>(schedule_.size());
    SparseStopPoint<64> stop_now_and_then;
    for (int32_t step = 0; step < steps; ++step) {
      stop_now_and_then();
      runs_at_[step] = step;
      const Op& op = op_at(step);
      const int32_t kind = kind_of(op);
      close_disturbed(op, kind);
      if (kind >= 0) add(step, groups_[kind], Slots{1} << kind);
      for (const StorageId output : op.outputs) {
        if (!problem_.storages[output].resident) newest_[output] = next_range_++;
      }
      if (op.scratch_bytes > 0) ++next_range_;
    }
    return result();
  }

 private:
  // Ops of one kind that run at the step of the last of them.
  struct Group {
    uint64_t kind = 0;
    std::vector<int32_t> steps = {};
    std::vector<int32_t> reads = {};  // ranges, each once
  };

  [[nodiscard]] const Op& op_at(int32_t step) const {
    const OpId id = schedule_[step];
    return problem_.ops[id];
  }

  // The number of the op's group; -1 where it has none.
  int32_t kind_of(const Op& op) {
    if (op.fusion.kind == 0) return -1;
    const auto [found, is_new] =
        numbers_.emplace(op.fusion.kind, static_cast<int32_t>(groups_.size()));
    if (is_new && groups_.size() == kMostKinds) {
      numbers_.erase(found);
      return -1;
    }
    if (is_new) groups_.push_back({.kind = op.fusion.kind});
    return found->second;
  }

  // Groups that cannot wait until behind the op. Those of its own kind run in its order.
  void close_disturbed(const Op& op, int32_t kind) {
    Slots disturbed = 0;
    for (const StorageId input : op.inputs) disturbed |= written_by_[input];
    for (const StorageId output : op.outputs) disturbed |= read_by_[output] | written_by_[output];
    for (const auto& [output, input] : op.reuses) disturbed |= read_by_[input];
    if (kind >= 0) disturbed &= ~(Slots{1} << kind);
    for (; disturbed != 0; disturbed &= disturbed - 1) close(std::countr_zero(disturbed));
  }

  void close(int32_t kind) {
    Group& group = groups_[kind];
    const Slots others = ~(Slots{1} << kind);
    for (const int32_t step : group.steps) {
      for (const StorageId input : op_at(step).inputs) read_by_[input] &= others;
      for (const StorageId output : op_at(step).outputs) written_by_[output] &= others;
    }
    group.steps.clear();
    group.reads.clear();
  }

  void add(int32_t step, Group& group, Slots slot) {
    const Op& op = op_at(step);
    if (!group.steps.empty() && !wait(group, step)) close(std::countr_zero(slot));
    for (const int32_t before : group.steps) runs_at_[before] = step;
    group.steps.push_back(step);
    for (const StorageId input : op.inputs) {
      read_by_[input] |= slot;
      const int32_t range = newest_[input];
      if (range < 0) continue;
      if (std::find(group.reads.begin(), group.reads.end(), range) == group.reads.end())
        group.reads.push_back(range);
    }
    for (const StorageId output : op.outputs) written_by_[output] |= slot;
  }

  // Whether the group can run at the step, in a kernel with it; then its operands live until there.
  bool wait(const Group& group, int32_t step) {
    const Fusion& fusion = op_at(step).fusion;
    if (std::cmp_greater_equal(group.steps.size(), fusion.most)) return false;
    const int32_t from = group.steps.back();
    more_.assign(static_cast<size_t>(step - from) + 1, 0);  // by step behind `from`
    for (const int32_t range : group.reads) {
      const int32_t first = std::max(ranges_[range].last, from) + 1;
      for (int32_t at = first; at <= step; ++at) more_[at - from] += ranges_[range].bytes;
    }
    more_[step - from] += fusion.scratch_bytes - op_at(step).scratch_bytes;
    for (int32_t at = from + 1; at <= step; ++at) {
      if (bytes_[at] + more_[at - from] > most_bytes_) return false;
    }
    for (int32_t at = from + 1; at <= step; ++at) bytes_[at] += more_[at - from];
    const bool was_fused = group.steps.size() > 1;
    bytes_[from] -= was_fused ? fusion.scratch_bytes : op_at(from).scratch_bytes;
    for (const int32_t range : group.reads)
      ranges_[range].last = std::max(ranges_[range].last, step);
    return true;
  }

  [[nodiscard]] FusedSchedule result() const {
    FusedSchedule fused;
    const auto steps = static_cast<int32_t>(schedule_.size());
    IndexVector<std::vector<int32_t>> waiting(schedule_.size());
    for (int32_t step = 0; step < steps; ++step) {
      if (runs_at_[step] != step) waiting[runs_at_[step]].push_back(step);
    }
    bool is_any = false;
    for (int32_t step = 0; step < steps; ++step) {
      if (runs_at_[step] != step) continue;
      for (const int32_t before : waiting[step]) {
        fused.schedule.push_back(schedule_[before]);
        fused.fused.push_back(before != waiting[step].front() ? Fused::sums : Fused::no);
      }
      fused.schedule.push_back(schedule_[step]);
      fused.fused.push_back(waiting[step].empty() ? Fused::no : Fused::sums);
      is_any = is_any || !waiting[step].empty();
    }
    if (!is_any) fused.fused.clear();
    return fused;
  }

  const Problem& problem_;
  IndexSpan<const OpId> schedule_;
  int64_t most_bytes_;
  IndexVector<LiveRange> ranges_;
  IndexVector<int64_t> bytes_;           // by step
  IdVector<StorageId, int32_t> newest_;  // its range
  int32_t next_range_ = 0;
  IdVector<StorageId, Slots> read_by_;  // by groups that wait
  IdVector<StorageId, Slots> written_by_;
  IndexVector<int32_t> runs_at_;  // by step
  std::map<uint64_t, int32_t> numbers_;
  IndexVector<Group> groups_;
  IndexVector<int64_t> more_;
};

}  // namespace

FusedSchedule fuse_steps(const Problem& problem, IndexSpan<const OpId> schedule, Liveness live,
                         int64_t most_bytes) {
  return Fuser(problem, schedule, std::move(live), most_bytes).run();
}

}  // namespace snug::plan
