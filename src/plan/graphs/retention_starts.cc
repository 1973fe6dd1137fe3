// SPDX-License-Identifier: Apache-2.0
#include "plan/graphs/retention_starts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/id_vector.h"
#include "base/stop.h"
#include "plan/graphs/retention_greedy.h"
#include "plan/graphs/retention_ruin.h"

namespace snug::plan {
namespace {

// Shares of the limit: a cut does not see what the moment's neighbours need.
constexpr double kShares[] = {1, 0.95, 0.9, 0.8};

constexpr size_t kMostFailures = 2;   // of one moment's cuts
constexpr int64_t kFewestStarts = 4;  // for which the work is enough
constexpr int64_t kMoreForFirst = 2;  // times the work, until there is one

}  // namespace

StartFinder::StartFinder(const ProblemIndex& index, const StageGraph& graph, Retention& state,
                         const std::vector<ArenaId>& droppable)
    : graph_(graph), state_(state), droppable_(droppable), keep_all_(state.snapshot()) {
  const int32_t fullest = state.worst_stage();
  const OpId loss = loss_instant(index);
  if (loss != index.end_op()) moments_.push_back({graph.way_of[loss], MomentCuts(index, loss)});
  if (fullest < graph.op_count && graph.run_ids[fullest] != loss)
    moments_.push_back({fullest, MomentCuts(index, graph.run_ids[fullest])});
}

std::vector<Start> StartFinder::find(std::span<const std::vector<OpId>> schedules, Random& random,
                                     const StartLimits& limits) {
  begin_ = state_.work();
  for (const std::vector<OpId>& schedule : schedules) {
    Draft draft;
    draft.schedule = &schedule;
    if (state_.take(schedule)) add_draft(std::move(draft));
  }
  settle_drafts(drafts_.size(), random, limits);
  for (Moment& moment : moments_) {
    if (limits.cuts == 0) break;
    add_cuts(moment, limits);
    settle_drafts(static_cast<size_t>(limits.cuts), random, limits);
  }
  std::stable_sort(starts_.begin(), starts_.end(), [](const Start& a, const Start& b) {
    return a.state.extra_cost < b.state.extra_cost;
  });
  return std::exchange(starts_, {});
}

void StartFinder::add_cuts(Moment& moment, const StartLimits& limits) {
  size_t failures = 0;
  std::vector<int64_t> budgets;
  for (const double share : kShares)
    budgets.push_back(static_cast<int64_t>(share * static_cast<double>(state_.limit_bytes())));
  state_.restore(keep_all_);
  for (std::vector<StorageId>& kept : moment.cuts.kept_sets(budgets, limits.cuts_of_share)) {
    if (is_stop_due() || failures == kMostFailures) return;
    Draft draft;
    draft.moment = &moment;
    draft.kept = std::move(kept);
    if (keep_across(graph_, state_, droppable_, moment.stage, draft.kept, 2 * limits.work)) {
      add_draft(std::move(draft));
    } else {
      ++failures;
    }
    state_.roll_back();
  }
}

void StartFinder::add_draft(Draft draft) {
  const double ratio =
      static_cast<double>(state_.peak()) / std::max(1.0, static_cast<double>(state_.limit_bytes()));
  draft.distance = std::abs(std::log(std::max(ratio, 1e-9)));
  draft.extra_cost = state_.extra_cost();
  drafts_.push_back(std::move(draft));
}

void StartFinder::make(const Draft& draft) {
  if (draft.schedule != nullptr) {
    SNUG_CHECK(state_.take(*draft.schedule), "a schedule that was taken");
    return;
  }
  state_.restore(keep_all_);
  SNUG_CHECK(keep_across(graph_, state_, droppable_, draft.moment->stage, draft.kept),
             "a cut that was made");
  state_.commit();
}

// The nearest drafts are brought within the limit, as many as the work permits.
void StartFinder::settle_drafts(size_t count, Random& random, const StartLimits& limits) {
  std::stable_sort(drafts_.begin(), drafts_.end(),
                   [](const Draft& a, const Draft& b) { return a.distance < b.distance; });
  if (drafts_.size() > count) drafts_.resize(count);
  for (const Draft& draft : drafts_) {
    const int64_t left = limits.work - (state_.work() - begin_);
    if (is_stop_due() || left <= (starts_.empty() ? -kMoreForFirst * limits.work : 0)) break;
    if (!starts_.empty() && draft.extra_cost > limits.dearest * cheapest()) continue;
    make(draft);
    RuinLimits none;
    none.work = 1;
    none.mean_cost = limits.mean_cost;
    if (!ruin_and_recreate(graph_, state_, droppable_, random, none)) continue;
    if (state_.extra_cost() < limits.least_cost) continue;
    fill_room(graph_, state_,
              {std::max(left, limits.work / kFewestStarts), limits.least_cost, [] {}});
    starts_.push_back(start_of(state_));
  }
  drafts_.clear();
}

double StartFinder::cheapest() const {
  double cost = starts_.front().state.extra_cost;
  for (const Start& each : starts_) cost = std::min(cost, each.state.extra_cost);
  return cost;
}

bool keep_across(const StageGraph& graph, Retention& state, std::span<const ArenaId> droppable,
                 int32_t stage, std::span<const StorageId> kept, int64_t most_work) {
  const std::vector<StorageId> sorted = [&] {
    std::vector<StorageId> ids(kept.begin(), kept.end());
    std::sort(ids.begin(), ids.end());
    return ids;
  }();
  for (const ArenaId id : droppable) {
    if (graph.producer[id] >= stage ||
        std::binary_search(sorted.begin(), sorted.end(), graph.storage_ids[id]))
      continue;
    const Gap gap = gap_through(state, id, stage);
    if (gap.storage != kNone) state.plan(id, gap.begin + 1, gap.end, false);
  }
  if (state.settle(most_work)) return true;
  state.roll_back();
  return false;
}

}  // namespace snug::plan
