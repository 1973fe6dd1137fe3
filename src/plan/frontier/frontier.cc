// SPDX-License-Identifier: Apache-2.0
#include "plan/frontier/frontier.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/stop.h"
#include "plan/improve/bound.h"
#include "plan/improve/fuse_rows.h"
#include "plan/improve/fuse_steps.h"
#include "plan/improve/operand_bound.h"
#include "plan/placement/assemble.h"
#include "plan/problem/liveness.h"
#include "plan/problem/order.h"

namespace snug::plan {
namespace {

bool has_sums(const Op& op) { return op.fusion.kind != 0; }

// Whether a program begins with what a product makes; else `fusible` has the same ones.
bool has_heads(const Problem& problem, IndexSpan<const OpId> schedule, const RowPrograms& rows) {
  return std::any_of(rows.runs.begin(), rows.runs.end(), [&](const RowRun& run) {
    const OpId id = schedule[run.first];
    return problem.ops[id].rowwise->has_head;
  });
}

// With sums of one kernel, as far as `most_bytes` permit.
ScheduledPoint with_sums(const LivenessTable& table, ScheduledPoint point, int64_t most_bytes) {
  FusedSchedule found =
      fuse_steps(table.problem(), point.schedule, analyse(table, point.schedule), most_bytes);
  if (found.fused.empty()) return point;
  ScheduledPoint sums =
      measured(table, std::move(found.schedule), std::move(point.strategy), std::move(found.fused));
  SNUG_CHECK(sums.load_bytes <= most_bytes, "fused steps need more than they may");
  return sums;
}

// Each within its own load; one that is no faster any more than a smaller one goes.
std::vector<ScheduledPoint> with_sums(const LivenessTable& table,
                                      std::vector<ScheduledPoint> points) {
  const Problem& problem = table.problem();
  if (std::none_of(problem.ops.begin(), problem.ops.end(), has_sums)) return points;
  for (ScheduledPoint& each : points) {
    const int64_t load_bytes = each.load_bytes;
    each = with_sums(table, std::move(each), load_bytes);
  }
  return front_of(std::move(points));
}

// Where a schedule takes so much longer than the fastest, the next is much slower: one whose
// programs cannot be placed is tried with fewer.
constexpr double kSteep = 1.2;
// What programs save at least, as a share of the schedule's time: one that stands twice is placed
// and kept twice.
constexpr double kWorthwhile = 1e-4;

struct Programmed {
  FusedSchedule steps;
  RowPrograms rows;
};

// With all row programs that the bytes permit.
Programmed programmed(const LivenessTable& table, const ScheduledPoint& point, int64_t most_bytes,
                      Heads heads) {
  FusedSchedule steps = with_rows_adjacent(table, {point.schedule, point.fused}, heads);
  Liveness live = analyse(table, steps.schedule, steps.fused);
  if (live.load_bytes > most_bytes) {
    steps = {point.schedule, point.fused};
    live = analyse(table, steps.schedule, steps.fused);
  }
  RowPrograms rows = fuse_rows(table, steps.schedule, steps.fused, live, most_bytes, heads);
  return {std::move(steps), std::move(rows)};
}

// With all row programs, last; before that, where they are wanted, fewer, which are easier to
// place: as fusion `fusible` has them, since a level makes nothing worse, and without those near
// the peak. Nothing where no step joins another.
std::vector<ScheduledPoint> with_rows(const LivenessTable& table, const ScheduledPoint& point,
                                      int64_t most_bytes, bool tries_fewer = false) {
  if (!has_ops_by_rows(table.problem())) return {};
  std::vector<ScheduledPoint> found;
  const auto add = [&](const FusedSchedule& steps, RowPrograms rows) {
    if (rows.runs.empty()) return;
    const StepLoads after = loads_of(table, steps.schedule, rows.fused, rows.runs);
    SNUG_CHECK(after.load_bytes <= most_bytes, "row programs need more than they may");
    found.push_back({steps.schedule, point.strategy, after.load_bytes, after.seconds,
                     std::move(rows.fused), after.kept_bytes});
  };
  Programmed all = programmed(table, point, most_bytes, Heads::joined);
  if (tries_fewer) {
    if (has_heads(table.problem(), all.steps.schedule, all.rows)) {
      Programmed fusible = programmed(table, point, most_bytes, Heads::apart);
      add(fusible.steps, std::move(fusible.rows));
    }
    RowPrograms fewer = programs_within(all.rows, most_bytes - most_bytes / 16);
    if (fewer.runs.size() < all.rows.runs.size()) add(all.steps, std::move(fewer));
  }
  add(all.steps, std::move(all.rows));
  return found;
}

}  // namespace

ScheduledPoint measured(const LivenessTable& table, std::vector<OpId> schedule,
                        std::string strategy, FusedSteps fused) {
  stop_point();
  const StepLoads loads = loads_of(table, schedule, fused);
  return {std::move(schedule), std::move(strategy), loads.load_bytes,
          loads.seconds,       std::move(fused),    loads.kept_bytes};
}

ScheduledPoint timed(const LivenessTable& table, ScheduledPoint point) {
  stop_point();
  point.seconds = seconds_of(table, point.schedule, point.kept_bytes);
  return point;
}

ScheduledPoint fused(const Problem& problem, ScheduledPoint point, int64_t most_bytes) {
  const LivenessTable table(problem);
  point = with_sums(table, std::move(point), most_bytes);
  std::vector<ScheduledPoint> rows = with_rows(table, point, most_bytes);
  return rows.empty() ? point : std::move(rows.back());
}

bool has_row_programs(const ScheduledPoint& point) {
  return std::find(point.fused.begin(), point.fused.end(), Fused::rows) != point.fused.end();
}

bool has_ops_by_rows(const Problem& problem) {
  return std::any_of(problem.ops.begin(), problem.ops.end(),
                     [](const Op& op) { return op.rowwise->form.is_given(); });
}

void sort_slowest_first(std::vector<ScheduledPoint>& points) {
  std::stable_sort(points.begin(), points.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
}

std::vector<ScheduledPoint> with_and_without_rows(const LivenessTable& table,
                                                  std::vector<ScheduledPoint> points) {
  points = with_sums(table, std::move(points));
  const double fastest = std::ranges::min(points, {}, &ScheduledPoint::seconds).seconds;
  std::vector<ScheduledPoint> all;
  for (ScheduledPoint& each : points) {
    std::vector<ScheduledPoint> rows =
        with_rows(table, each, each.load_bytes, each.seconds > kSteep * fastest);
    std::erase_if(rows, [&](const ScheduledPoint& programs) {
      return programs.seconds > (1 - kWorthwhile) * each.seconds;
    });
    all.push_back(std::move(each));
    std::ranges::move(rows, std::back_inserter(all));
  }
  sort_slowest_first(all);
  return all;
}

Plan placed_fused(const Problem& problem, ScheduledPoint point, const PlacementLimits& limits) {
  const LivenessTable table(problem);
  ScheduledPoint plain = with_sums(table, {std::move(point)}).front();
  const auto placed = [&](const ScheduledPoint& each) {
    return assemble(problem, each.schedule, each.strategy, limits, each.fused);
  };
  const std::vector<ScheduledPoint> rows = with_rows(table, plain, plain.load_bytes);
  if (rows.empty()) return placed(plain);
  Plan found = placed(rows.back());
  if (found.arena_bytes == found.load_bytes) return found;
  Plan other = placed(plain);
  return found.arena_bytes <= other.arena_bytes ? found : other;
}

bool is_smaller(const ScheduledPoint& a, const ScheduledPoint& b) {
  return a.load_bytes != b.load_bytes ? a.load_bytes < b.load_bytes : a.seconds < b.seconds;
}

std::vector<ScheduledPoint> front_of(std::vector<ScheduledPoint> points) {
  std::stable_sort(points.begin(), points.end(), is_smaller);
  std::vector<ScheduledPoint> front;
  for (ScheduledPoint& each : points) {
    if (front.empty() || each.seconds < front.back().seconds) front.push_back(std::move(each));
  }
  return front;
}

Frontier::Frontier(const Problem& problem, std::vector<ScheduledPoint> points,
                   std::vector<OpId> keep_all, const PlacementLimits& limits)
    : problem_(&problem),
      points_(std::move(points)),
      keep_all_load_(
          with_and_without_rows(problem, {measured(problem, std::move(keep_all), "keep-all")})
              .back()),
      limits_(limits),
      bound_(working_set_bound(problem)),
      placed_(points_.size()) {}

Frontier::Frontier(const Problem& problem, Plan only)
    : Frontier(problem, {}, prompt_update_order(problem), {}) {
  points_.push_back({{}, only.strategy, only.load_bytes, only.seconds});
  only_ = std::move(only);
}

bool Frontier::keeps_all(size_t point) const {
  return points_[point].schedule == keep_all_load_.schedule &&
         points_[point].fused == keep_all_load_.fused;
}

const PlacedSchedule& Frontier::placed(size_t point) const {
  std::optional<PlacedSchedule>& placed = placed_[point];
  if (placed) return *placed;
  if (keeps_all(point)) return placed_keep_all();
  return placed.emplace(
      place_schedule(*problem_, points_[point].schedule, points_[point].fused, limits_));
}

const PlacedSchedule& Frontier::placed_keep_all() const {
  if (!keep_all_)
    keep_all_ = place_schedule(*problem_, keep_all_load_.schedule, keep_all_load_.fused, limits_);
  return *keep_all_;
}

int64_t Frontier::arena_bytes(size_t point) const {
  return only_ ? only_->arena_bytes : placed(point).placement.height;
}

Plan Frontier::plan(size_t point) const {
  if (only_) return *only_;
  if (keeps_all(point)) return keep_all();
  const ScheduledPoint& chosen = points_[point];
  return assemble(*problem_, chosen.schedule, chosen.fused, chosen.strategy, placed(point));
}

Plan Frontier::keep_all() const {
  return assemble(*problem_, keep_all_load_.schedule, keep_all_load_.fused, "keep-all",
                  placed_keep_all());
}

std::vector<Plan> Frontier::plans() const {
  std::vector<Plan> all;
  for (size_t i = 0; i < points_.size(); ++i) all.push_back(plan(i));
  std::stable_sort(all.begin(), all.end(), [](const Plan& a, const Plan& b) {
    return a.arena_bytes != b.arena_bytes ? a.arena_bytes < b.arena_bytes : a.seconds < b.seconds;
  });
  std::vector<Plan> front;
  for (Plan& each : all) {
    if (front.empty() || each.seconds < front.back().seconds) front.push_back(std::move(each));
  }
  return front;
}

size_t Frontier::smallest_point() const {
  size_t best = 0;
  for (size_t i = 1; i < points_.size(); ++i) {
    // Later ones are faster.
    if (points_[i].load_bytes <= arena_bytes(best) && arena_bytes(i) <= arena_bytes(best)) best = i;
  }
  return best;
}

Plan Frontier::smallest() const { return plan(smallest_point()); }

std::optional<Plan> fastest_within(const Frontier& frontier, int64_t arena_budget_bytes) {
  for (size_t i = frontier.points().size(); i-- > 0;) {
    if (frontier.points()[i].load_bytes <= arena_budget_bytes &&
        frontier.arena_bytes(i) <= arena_budget_bytes)
      return frontier.plan(i);
  }
  return std::nullopt;
}

Refusal refuse(const Problem& problem, const Frontier& frontier, int64_t arena_budget_bytes) {
  Refusal refusal;
  refusal.budget_bytes = arena_budget_bytes;
  refusal.bound = frontier.bound();
  refusal.is_proved = arena_budget_bytes < refusal.bound.bytes;
  refusal.smallest_arena_bytes = frontier.arena_bytes(frontier.smallest_point());
  refusal.gap_bytes = refusal.smallest_arena_bytes - refusal.bound.bytes;
  if (refusal.bound.op == kNone) return refusal;
  const Op& op = problem.ops[refusal.bound.op];
  const OperandBound in_memory(problem);
  refusal.op_name = op.name;
  for (const auto* operands : {&op.inputs, &op.outputs}) {
    for (const StorageId id : *operands) {
      const Storage& storage = problem.storages[id];
      const bool is_in_place = std::any_of(op.reuses.begin(), op.reuses.end(),
                                           [id](const auto& pair) { return pair.first == id; });
      if (!storage.resident && !is_in_place && !in_memory.may_be_inside(id, op))
        refusal.operands.push_back({storage.name, storage.bytes});
    }
  }
  if (const int64_t bytes = in_memory.scratch_bytes(op); bytes > 0)
    refusal.operands.push_back({"scratch", bytes});
  std::stable_sort(refusal.operands.begin(), refusal.operands.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return refusal;
}

}  // namespace snug::plan
