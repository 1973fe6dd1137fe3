// SPDX-License-Identifier: Apache-2.0
// In which ways the ops of a stage run, where they have variants: the fastest while the stage stays
// within the limit; else the leanest, and of these again as many fast ones as there is room for.
// Which they are follows from what is retained and from the limit only, so a state has one
// schedule.
#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "plan/graphs/retention.h"

namespace snug::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr size_t kMostNeeds = 64;  // ops that are counted; behind them all ways are alike

}  // namespace

// Whether the runs are collected: no way was to choose.
bool Retention::choose_ways(int32_t stage) {
  is_trial_ = true;
  Trial best = try_ways(stage, Prefer::time);
  if (best.ways.empty()) {
    is_trial_ = false;
    return best.cost < kNever && held_.empty();
  }
  if (make_what_is_shared(stage, best)) {
    Trial shared = try_again(stage);
    if (shared.cost < best.cost && (shared.peak <= limit_ || shared.peak <= best.peak))
      best = std::move(shared);
  }
  if (best.peak > limit_) {
    Trial lean = try_ways(stage, Prefer::bytes);
    if (lean.peak <= limit_) {
      for (const OpWay& fast : best.ways) {
        take_ways(lean);
        if (way_of(fast.op, stage) == fast.way) continue;
        way_[fast.op] = fast.way;
        Trial next = try_again(stage);
        if (next.peak <= limit_ && next.cost < lean.cost) lean = std::move(next);
      }
    }
    if (lean.peak < best.peak) best = std::move(lean);
  }
  take_ways(best);
  is_trial_ = false;
  return false;
}

Retention::Trial Retention::try_ways(int32_t stage, Prefer prefer) {
  prefer_ = prefer;
  ++trial_;
  Trial trial = try_again(stage);
  const bool may_read_more = prefer == Prefer::time && trial.cost < kNever && !trial.ways.empty();
  return may_read_more && read_what_is_there(stage, trial) ? try_again(stage) : trial;
}

// With the ways that are known.
Retention::Trial Retention::try_again(int32_t stage) {
  held_.clear();
  Trial trial;
  if (!collect_runs(stage)) {
    trial.cost = trial.peak = kNever;
    return trial;
  }
  const int32_t own = way_of(stage, stage);
  const auto add = [&](int32_t way) {
    trial.cost += graph_.cost[way];
    const int32_t op = graph_.op_of(way);
    if (!graph_.variants_of(op).empty()) trial.ways.push_back({op, way});
  };
  for (const int32_t way : new_runs_) add(way);
  add(own);
  if (trial.ways.empty()) return trial;
  trial.peak = stage_peak(stage, own, new_runs_, trial_bytes(stage, own));
  if (trial.peak < 0) trial.peak = kNever;
  return trial;
}

void Retention::take_ways(const Trial& trial) {
  ++trial_;
  for (const OpWay& each : trial.ways) {
    way_[each.op] = each.way;
    way_turn_[each.op] = trial_;
  }
}

// The way of an op that runs in the stage, chosen when it is first asked for.
int32_t Retention::way_of(int32_t op, int32_t stage) {
  if (graph_.variants_of(op).empty()) return op;
  if (way_turn_[op] != trial_) {
    way_turn_[op] = trial_;
    way_[op] = fastest_way(op, stage);
    if (prefer_ == Prefer::bytes) way_[op] = leanest_way(op, stage, way_[op]);
  }
  return way_[op];
}

int32_t Retention::fastest_way(int32_t op, int32_t stage) {
  int32_t best = op;
  Needs least = needs_of(op, stage);
  for (const int32_t way : graph_.variants_of(op)) {
    const Needs needs = needs_of(way, stage);
    if (!needs.is_possible) continue;
    const bool is_better = std::tie(needs.cost, needs.bytes) < std::tie(least.cost, least.bytes);
    if (least.is_possible && !is_better) continue;
    least = needs;
    best = way;
  }
  return best;
}

// Among those that read what is retained only for the fastest: what else would let that go, and a
// state that is above its limit for a while would lose it for good.
int32_t Retention::leanest_way(int32_t op, int32_t stage, int32_t fastest) {
  const auto reads_the_same = [&](int32_t way) {
    return std::ranges::all_of(graph_.inputs[fastest], [&](ArenaId input) {
      return stays_behind(input, stage) || !is_retained(input, stage) || graph_.reads(way, input);
    });
  };
  int32_t best = fastest;
  Needs least = needs_of(fastest, stage);
  const auto look_at = [&](int32_t way) {
    const Needs needs = needs_of(way, stage);
    if (!needs.is_possible || !reads_the_same(way)) return;
    if (std::tie(needs.bytes, needs.cost) >= std::tie(least.bytes, least.cost)) return;
    least = needs;
    best = way;
  };
  look_at(op);
  for (const int32_t way : graph_.variants_of(op)) look_at(way);
  return best;
}

// What a run takes with all that has to be made for it. Not possible: something of it is not made
// yet, or can be made no more.
Retention::Needs Retention::needs_of(int32_t way, int32_t stage) {
  Needs needs{graph_.cost[way], static_cast<double>(graph_.fixed_bytes[way])};
  needs.is_possible = stage <= graph_.last_of_way[way];
  if (!needs.is_possible) return needs;
  ++needs_turn_;
  std::vector<int32_t> open = {way};
  for (size_t i = 0; i < open.size() && open.size() < kMostNeeds; ++i) {
    const auto inputs = graph_.inputs[open[i]];
    work_ += static_cast<int64_t>(inputs.size());
    for (const ArenaId input : inputs) {
      if (is_retained(input, stage)) {
        if (!stays_behind(input, stage)) needs.bytes += static_cast<double>(graph_.bytes[input]);
        continue;
      }
      const int32_t maker = graph_.producer[input];
      if (maker >= stage || stage > graph_.last_stage[maker]) {
        needs.is_possible = false;
        return needs;
      }
      needs.bytes += static_cast<double>(graph_.bytes[input]);
      if (std::exchange(needs_mark_[maker], needs_turn_) == needs_turn_) continue;
      needs.cost += graph_.cost[maker];
      open.push_back(maker);
    }
  }
  return needs;
}

// What other runs of the stage have made, or need, costs nothing more. Whether a way has changed.
bool Retention::read_what_is_there(int32_t stage, const Trial& trial) {
  mark_runs(new_runs_);
  bool is_changed = false;
  for (const OpWay& now : trial.ways) {
    const auto is_there = [&](ArenaId input) {
      const int32_t maker = graph_.producer[input];
      return is_retained(input, stage) || (maker < now.op && op_mark_[maker] == mark_);
    };
    const auto look_at = [&](int32_t way) {
      if (graph_.cost[way] >= graph_.cost[way_[now.op]]) return;
      const auto inputs = graph_.inputs[way];
      if (!std::all_of(inputs.begin(), inputs.end(), is_there)) return;
      way_[now.op] = way;
      is_changed = true;
    };
    look_at(now.op);
    for (const int32_t way : graph_.variants_of(now.op)) look_at(way);
  }
  return is_changed;
}

// What several runs would compute within is made once for all of them. Whether a way has changed.
bool Retention::make_what_is_shared(int32_t stage, const Trial& trial) {
  take_ways(trial);
  std::vector<ArenaId> avoided;
  const auto for_avoided = [&](const OpWay& each, const auto& visit) {
    if (each.way == each.op) return;
    for (const ArenaId input : graph_.inputs[each.op]) {
      if (!is_retained(input, stage) && !graph_.reads(each.way, input)) visit(input);
    }
  };
  for (const OpWay& each : trial.ways)
    for_avoided(each, [&](ArenaId input) { avoided.push_back(input); });
  bool is_changed = false;
  for (const OpWay& each : trial.ways) {
    for_avoided(each, [&](ArenaId input) {
      if (std::ranges::count(avoided, input) < 2) return;
      way_[each.op] = each.op;
      is_changed = true;
    });
  }
  return is_changed;
}

// What is retained at the front of the stage once it is as in the trial, whose runs are marked:
// with what is held for it, and without what nobody reads then or what is made again.
double Retention::trial_bytes(int32_t stage, int32_t own) const {
  double bytes = retained_bytes_.at(stage);
  for (const ArenaId id : held_) bytes += static_cast<double>(graph_.bytes[id]);
  std::vector<ArenaId> gone;
  const auto let_go = [&](ArenaId id) {
    if (!is_retained(id, stage) || std::ranges::find(gone, id) != gone.end()) return;
    gone.push_back(id);
    bytes -= static_cast<double>(graph_.bytes[id]);
  };
  const auto look_at = [&](int32_t op) {
    if (graph_.variants_of(op).empty()) return;
    const auto look_at_inputs = [&](int32_t way) {
      for (const ArenaId input : graph_.inputs[way]) {
        if (!stays_behind(input, stage) && !is_read_by_marked(input, stage, own)) let_go(input);
      }
    };
    look_at_inputs(op);
    for (const int32_t way : graph_.variants_of(op)) look_at_inputs(way);
  };
  look_at(stage);
  for (const int32_t way : runs_[stage]) look_at(graph_.op_of(way));
  for (const int32_t way : new_runs_) {
    look_at(graph_.op_of(way));
    for (const ArenaId output : graph_.outputs[way]) let_go(output);
  }
  return bytes;
}

}  // namespace snug::plan
