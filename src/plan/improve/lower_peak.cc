// SPDX-License-Identifier: Apache-2.0
#include "plan/improve/lower_peak.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "base/id_vector.h"
#include "base/index_vector.h"
#include "base/stop.h"
#include "plan/problem/liveness.h"

namespace snug::plan {
namespace {

// What the search knows about the current schedule.
struct View {
  IndexVector<OpId> schedule;
  Liveness live;
};

View view_of(const LivenessTable& table, IndexVector<OpId> schedule) {
  View view;
  view.live = analyse(table, schedule);
  view.schedule = std::move(schedule);
  return view;
}

std::ptrdiff_t steps_at_peak(const StepLoads& loads) {
  return std::count(loads.step_bytes.begin(), loads.step_bytes.end(), loads.load_bytes);
}

// When storages are live and when residents are written, each by rising step.
class Timeline {
 public:
  Timeline(const ProblemIndex& index, const View& view)
      : live_(static_cast<size_t>(index.storage_count())),
        writes_(static_cast<size_t>(index.storage_count())) {
    for (const LiveRange& range : view.live.ranges) {
      if (!range.is_scratch()) live_[range.storage].emplace_back(range.first, range.last);
    }
    for (size_t step = 0; step < view.schedule.size(); ++step) {
      for (const StorageId output : index.op(view.schedule[step]).outputs) {
        if (index.storage(output).resident) writes_[output].push_back(static_cast<int32_t>(step));
      }
    }
  }

  /// Live across the front of the step.
  [[nodiscard]] bool is_live(StorageId id, int32_t step) const {
    const auto& ranges = live_[id];
    const auto next = std::lower_bound(ranges.begin(), ranges.end(), std::pair(step, 0));
    return next != ranges.begin() && std::prev(next)->second >= step;
  }
  [[nodiscard]] int32_t writes_before(StorageId id, int32_t step) const {
    const auto& steps = writes_[id];
    return static_cast<int32_t>(std::lower_bound(steps.begin(), steps.end(), step) - steps.begin());
  }

 private:
  IdVector<StorageId, std::vector<std::pair<int32_t, int32_t>>> live_;  // [first, last] by storage
  IdVector<StorageId, std::vector<int32_t>> writes_;                    // by storage
};

// The ops that make `wanted` from what is live before the step, in the given order; nothing where
// one may not run again.
std::optional<std::vector<OpId>> closure_of(const ProblemIndex& index, const Timeline& timeline,
                                            int32_t step, StorageId wanted) {
  std::vector<OpId> closure;
  std::vector<StorageId> stack{wanted};
  bool is_first = true;
  while (!stack.empty()) {
    const StorageId id = stack.back();
    stack.pop_back();
    if (index.storage(id).resident) continue;
    if (!is_first && timeline.is_live(id, step)) continue;
    is_first = false;
    const OpId producer = index.producer[id];
    if (std::find(closure.begin(), closure.end(), producer) != closure.end()) continue;
    if (index.runs_once[producer]) return std::nullopt;
    for (const auto& [resident, writes] : index.versions[producer]) {
      if (timeline.writes_before(resident, step) != writes) return std::nullopt;
    }
    closure.push_back(producer);
    if (closure.size() > 64) return std::nullopt;
    for (const StorageId input : index.op(producer).inputs) stack.push_back(input);
  }
  std::sort(closure.begin(), closure.end());
  return closure;
}

struct Move {
  int32_t before = 0;  // the step in front of which the closure goes
  std::vector<OpId> closure;
  double price = 0;  // seconds per byte
};

std::vector<Move> moves_at_peak(const ProblemIndex& index, const View& view,
                                int32_t max_candidates) {
  const int32_t peak = view.live.peak_step;
  IdVector<StorageId, int32_t> next_use(index.storage_count(), -1);
  IdVector<StorageId, bool> is_used_now(index.storage_count(), false);
  const Op& now = index.op(view.schedule[peak]);
  for (const auto* operands : {&now.inputs, &now.outputs}) {
    for (const StorageId id : *operands) is_used_now[id] = true;
  }
  for (auto t = static_cast<int32_t>(view.schedule.size()) - 1; t > peak; --t) {
    for (const StorageId input : index.op(view.schedule[t]).inputs) {
      next_use[input] = t;
    }
  }
  const Timeline timeline(index, view);
  std::vector<Move> moves;
  for (const LiveRange& range : view.live.ranges) {
    if (range.is_scratch() || range.bytes == 0 || range.first >= peak || range.last <= peak)
      continue;
    const StorageId id = range.storage;
    stop_point();
    if (is_used_now[id] || next_use[id] < 0 || index.runs_once[index.producer[id]]) continue;
    auto closure = closure_of(index, timeline, next_use[id], id);
    if (!closure) continue;
    double seconds = 0;
    for (const OpId op : *closure) seconds += index.op(op).seconds;
    moves.push_back(
        {next_use[id], std::move(*closure), (seconds + 1e-12) / static_cast<double>(range.bytes)});
  }
  std::stable_sort(moves.begin(), moves.end(),
                   [](const Move& a, const Move& b) { return a.price < b.price; });
  if (moves.size() > static_cast<size_t>(max_candidates))
    moves.resize(static_cast<size_t>(max_candidates));
  return moves;
}

}  // namespace

std::vector<std::vector<OpId>> lower_peak(const ProblemIndex& index, IndexSpan<const OpId> schedule,
                                          const PeakSearch& limits) {
  std::vector<std::vector<OpId>> found;
  if (schedule.empty()) return found;
  const LivenessTable table(index.problem);
  View view = view_of(table, {schedule.begin(), schedule.end()});
  int64_t best_load = view.live.load_bytes;
  for (int32_t round = 0; round < limits.max_rounds; ++round) {
    std::optional<std::vector<OpId>> best;
    double best_price = std::numeric_limits<double>::max();
    for (const Move& move : moves_at_peak(index, view, limits.max_candidates)) {
      stop_point();
      std::vector<OpId> trial(view.schedule);
      trial.insert(trial.begin() + move.before, move.closure.begin(), move.closure.end());
      const StepLoads after = loads_of(table, trial);
      const bool is_lower = after.load_bytes < view.live.load_bytes;
      const bool is_narrower = after.load_bytes == view.live.load_bytes &&
                               steps_at_peak(after) < steps_at_peak(view.live);
      if (!is_lower && !is_narrower) continue;
      const double gain =
          is_lower ? static_cast<double>(view.live.load_bytes - after.load_bytes) : 0.5;
      const double price = (after.seconds - view.live.seconds + 1e-12) / gain;
      if (price < best_price) {
        best_price = price;
        best = std::move(trial);
      }
    }
    if (!best) break;
    view = view_of(table, std::move(*best));
    if (view.live.load_bytes < best_load) {
      best_load = view.live.load_bytes;
      found.push_back(view.schedule);
    }
  }
  return found;
}

}  // namespace snug::plan
