// SPDX-License-Identifier: Apache-2.0
#include "plan/graphs/retention_starts.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/id_vector.h"
#include "base/stop.h"
#include "plan/graphs/retention_greedy.h"
#include "plan/graphs/retention_ruin.h"
#include "plan/improve/bound.h"

namespace snug::plan {
namespace {

// Shares of the limit: a cut does not see what the moment's neighbours need.
constexpr double kShares[] = {1, 0.95, 0.9, 0.8};

constexpr int64_t kFewestStarts = 4;  // for which the work is enough

// A state on its way to the limit.
struct Draft {
  Retention::Snapshot state;
  double distance = 0;  // of its peak from the limit, as a ratio
};

class StartFinder {
 public:
  StartFinder(const ProblemIndex& index, const StageGraph& graph, Retention& state,
              const std::vector<ArenaId>& droppable, Random& random, const StartLimits& limits)
      : index_(index),
        graph_(graph),
        state_(state),
        droppable_(droppable),
        random_(random),
        limits_(limits),
        keep_all_(state.snapshot()) {}

  void add_schedules(std::span<const std::vector<OpId>> schedules) {
    for (const std::vector<OpId>& schedule : schedules) {
      if (state_.take(schedule)) add_draft();
    }
    settle_drafts(drafts_.size());
  }

  void add_cuts() {
    state_.restore(keep_all_);
    const int32_t fullest = state_.worst_stage();
    const OpId loss = loss_instant(index_);
    if (loss != index_.end_op()) add_cuts_at(loss);
    if (fullest < graph_.op_count && graph_.op_ids[fullest] != loss)
      add_cuts_at(graph_.op_ids[fullest]);
  }

  std::vector<Start> take() {
    std::stable_sort(starts_.begin(), starts_.end(), [](const Start& a, const Start& b) {
      return a.state.extra_cost < b.state.extra_cost;
    });
    return std::move(starts_);
  }

 private:
  void add_cuts_at(OpId moment) {
    std::vector<int64_t> budgets;
    for (const double share : kShares)
      budgets.push_back(static_cast<int64_t>(share * static_cast<double>(state_.limit_bytes())));
    for (const std::vector<StorageId>& kept : kept_sets(index_, moment, budgets)) {
      if (is_stop_due()) return;
      state_.restore(keep_all_);
      if (keep_across(graph_, state_, droppable_, graph_.stage_of[moment], kept)) add_draft();
    }
    settle_drafts(static_cast<size_t>(limits_.cuts));
  }

  void add_draft() {
    const double ratio = static_cast<double>(state_.peak()) /
                         std::max(1.0, static_cast<double>(state_.limit_bytes()));
    drafts_.push_back({state_.snapshot(), std::abs(std::log(std::max(ratio, 1e-9)))});
  }

  // The nearest drafts are brought within the limit, as many as the work permits.
  void settle_drafts(size_t count) {
    std::stable_sort(drafts_.begin(), drafts_.end(),
                     [](const Draft& a, const Draft& b) { return a.distance < b.distance; });
    if (drafts_.size() > count) drafts_.resize(count);
    for (const Draft& draft : drafts_) {
      const int64_t left = limits_.work - (state_.work() - begin_);
      if (is_stop_due() || (!starts_.empty() && left <= 0)) break;
      if (!starts_.empty() && draft.state.extra_cost > limits_.dearest * cheapest()) continue;
      state_.restore(draft.state);
      RuinLimits none;
      none.work = 1;
      none.mean_cost = limits_.mean_cost;
      if (!ruin_and_recreate(graph_, state_, droppable_, random_, none)) continue;
      fill_room(graph_, state_, std::max(left, limits_.work / kFewestStarts));
      starts_.push_back({state_.snapshot(), state_.peak()});
    }
    drafts_.clear();
  }

  [[nodiscard]] double cheapest() const {
    double cost = starts_.front().state.extra_cost;
    for (const Start& each : starts_) cost = std::min(cost, each.state.extra_cost);
    return cost;
  }

  const ProblemIndex& index_;
  const StageGraph& graph_;
  Retention& state_;
  const std::vector<ArenaId>& droppable_;
  Random& random_;
  const StartLimits& limits_;
  Retention::Snapshot keep_all_;
  int64_t begin_ = state_.work();
  std::vector<Draft> drafts_;
  std::vector<Start> starts_;
};

}  // namespace

bool keep_across(const StageGraph& graph, Retention& state, std::span<const ArenaId> droppable,
                 int32_t stage, std::span<const StorageId> kept) {
  const std::vector<StorageId> sorted = [&] {
    std::vector<StorageId> ids(kept.begin(), kept.end());
    std::sort(ids.begin(), ids.end());
    return ids;
  }();
  for (const ArenaId id : droppable) {
    if (graph.producer[id] >= stage ||
        std::binary_search(sorted.begin(), sorted.end(), graph.storage_ids[id]))
      continue;
    const auto touches = state.touches(id);
    const auto next = touch_at(touches, stage);
    if (next == touches.begin() || next == touches.end() || next->stage == stage) continue;
    state.plan(id, std::prev(next)->stage + 1, next->stage, false);
  }
  if (state.settle()) {
    state.commit();
    return true;
  }
  state.roll_back();
  return false;
}

std::vector<Start> find_starts(const ProblemIndex& index, const StageGraph& graph, Retention& state,
                               const std::vector<ArenaId>& droppable,
                               std::span<const std::vector<OpId>> schedules, Random& random,
                               const StartLimits& limits) {
  StartFinder finder(index, graph, state, droppable, random, limits);
  finder.add_schedules(schedules);
  finder.add_cuts();
  return finder.take();
}

}  // namespace snug::plan
