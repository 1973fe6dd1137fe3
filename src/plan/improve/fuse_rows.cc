// SPDX-License-Identifier: Apache-2.0
#include "plan/improve/fuse_rows.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/stop.h"

namespace snug::plan {
namespace {

// Steps of one program: what a kernel is written for.
constexpr int32_t kMostSteps = 16;

// By step: the bytes of what is there when it begins.
IndexVector<int64_t> bytes_before(const Liveness& live) {
  IndexVector<int64_t> change(live.step_bytes.size() + 2, 0);
  for (const LiveRange& range : live.ranges) {
    if (range.last <= range.first) continue;
    change[range.first + 1] += range.bytes;
    change[range.last + 1] -= range.bytes;
  }
  int64_t in_use = 0;
  for (int64_t& each : change) each = in_use += each;
  return change;
}

bool may_join(const LivenessTable& table, OpId id, Heads heads) {
  return table.op(id).is_by_rows &&
         (heads == Heads::joined || !table.problem().ops[id].rowwise->has_head);
}

class RowFuser {
 public:
  RowFuser(const LivenessTable& table, IndexSpan<const OpId> schedule, const Liveness& live,
           int64_t most_bytes, Heads heads)
      : table_(table),
        heads_(heads),
        problem_(table.problem()),
        schedule_(schedule),
        most_bytes_(most_bytes),
        reads_(table, schedule),
        builder_(problem_, schedule, reads_),
        before_(bytes_before(live)) {}

  // Whether a program may begin with this step.
  [[nodiscard]] bool is_start(int32_t step) const {
    return is_by_rows(step) && std::cmp_less(step + 1, schedule_.size()) && is_by_rows(step + 1);
  }

  struct Found {
    RowRun run;
    int64_t bytes = 0;
  };
  // The longest program of at most so many steps that begins with this one.
  [[nodiscard]] std::optional<Found> longest(int32_t first, int32_t most) {
    for (int32_t steps = most; steps >= 2; --steps) {
      builder_.begin_at(first);
      int32_t added = 0;
      while (added < steps && builder_.add()) ++added;
      if (added < 2) break;
      steps = added;
      RowRun run = builder_.run();
      const int64_t bytes = bytes_of(run);
      if (bytes <= most_bytes_) return Found{std::move(run), bytes};
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] const Op& op_at(int32_t step) const {
    const OpId id = schedule_[step];
    return problem_.ops[id];
  }
  [[nodiscard]] bool is_by_rows(int32_t step) const {
    return may_join(table_, schedule_[step], heads_);
  }

  // In use while the program runs.
  [[nodiscard]] int64_t bytes_of(const RowRun& run) const {
    int64_t bytes = before_[run.first] + run.scratch_bytes;
    // What the first step may write over is no longer there in the schedule's own liveness.
    for (const auto& [output, input] : op_at(run.first).reuses)
      bytes += problem_.storages[input].bytes;
    for (int32_t step = run.first; step <= run.last(); ++step) {
      const Op& op = op_at(step);
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        const Storage& storage = problem_.storages[op.outputs[i]];
        const bool is_inside = run.is_inside(step, i);
        if (!storage.resident && !is_inside) bytes += storage.bytes;
      }
    }
    for (const auto& [output, input] : run.places)
      bytes -= std::min(problem_.storages[output].bytes, problem_.storages[input].bytes);
    return bytes;
  }

  const LivenessTable& table_;
  Heads heads_;
  const Problem& problem_;
  IndexSpan<const OpId> schedule_;
  int64_t most_bytes_;
  LastReads reads_;
  RowRunBuilder builder_;
  IndexVector<int64_t> before_;
};

// Bytes of an op that runs earlier than it must, beside what a program takes.
constexpr int64_t kSmallBytes = 64 * 1024;

bool is_small(const Problem& problem, const Op& op) {
  int64_t bytes = op.scratch_bytes;
  for (const StorageId id : op.outputs) {
    if (problem.storages[id].resident) return false;
    bytes += problem.storages[id].bytes;
  }
  return bytes <= kSmallBytes && op.reuses.empty();
}

bool touches(const std::vector<StorageId>& a, const std::vector<StorageId>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](StorageId id) { return std::find(b.begin(), b.end(), id) != b.end(); });
}

}  // namespace

FusedSchedule with_rows_adjacent(const LivenessTable& table, FusedSchedule given, Heads heads) {
  const Problem& problem = table.problem();
  FusedSchedule found;
  size_t first = 0;  // of the steps by rows that end the schedule so far
  for (size_t step = 0; step < given.schedule.size(); ++step) {
    const OpId id = given.schedule[step];
    const Op& op = problem.ops[id];
    const bool is_by_rows = may_join(table, id, heads);
    if (is_by_rows && op.rowwise->has_head) first = found.schedule.size();
    const auto chain = std::span(found.schedule).subspan(first);
    const auto is_apart = [&](OpId other) {
      const Op& before = problem.ops[other];
      return !touches(op.inputs, before.outputs) && !touches(op.outputs, before.inputs) &&
             !touches(op.outputs, before.outputs);
    };
    size_t at = found.schedule.size();
    if (!is_by_rows && chain.size() <= kMostSteps && is_small(problem, op) &&
        std::all_of(chain.begin(), chain.end(), is_apart)) {
      at = first++;
    } else if (!is_by_rows) {
      first = at + 1;
    }
    found.schedule.insert(found.schedule.begin() + static_cast<std::ptrdiff_t>(at), id);
    if (given.fused.empty()) continue;
    found.fused.insert(found.fused.begin() + static_cast<std::ptrdiff_t>(at), given.fused[step]);
  }
  return found;
}

RowPrograms fuse_rows(const LivenessTable& table, IndexSpan<const OpId> schedule,
                      const FusedSteps& fused, const Liveness& live, int64_t most_bytes,
                      Heads heads) {
  RowFuser fuser(table, schedule, live, most_bytes, heads);
  const auto steps = static_cast<int32_t>(schedule.size());
  RowPrograms found{.fused = fused};
  SparseStopPoint<64> stop_now_and_then;
  for (int32_t step = 0; step < steps;) {
    stop_now_and_then();
    if (!fuser.is_start(step)) {
      ++step;
      continue;
    }
    int32_t most = std::min(kMostSteps, steps - step);
    for (int32_t ahead = 0; ahead < most; ++ahead) {
      if (is_fused(fused, step + ahead)) most = ahead;
    }
    auto program = fuser.longest(step, most);
    if (!program) {
      ++step;
      continue;
    }
    found.fused.resize(static_cast<size_t>(steps), Fused::no);
    for (++step; step <= program->run.last(); ++step)
      found.fused[static_cast<size_t>(step)] = Fused::rows;
    found.bytes.push_back(program->bytes);
    found.runs.push_back(std::move(program->run));
  }
  return found;
}

RowPrograms programs_within(const RowPrograms& all, int64_t most_bytes) {
  RowPrograms some{.fused = all.fused};
  for (size_t i = 0; i < all.runs.size(); ++i) {
    const RowRun& run = all.runs[i];
    if (all.bytes[i] <= most_bytes) {
      some.runs.push_back(run);
      some.bytes.push_back(all.bytes[i]);
      continue;
    }
    for (int32_t step = run.first + 1; step <= run.last(); ++step)
      some.fused[static_cast<size_t>(step)] = Fused::no;
  }
  return some;
}

}  // namespace snug::plan
