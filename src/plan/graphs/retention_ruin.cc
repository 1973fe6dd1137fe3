// SPDX-License-Identifier: Apache-2.0
#include "plan/graphs/retention_ruin.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/index_vector.h"
#include "base/stop.h"
#include "plan/graphs/retention_greedy.h"

namespace snug::plan {
namespace {

constexpr double kCold = 0.02;  // where the temperature ends, in mean costs of an op
// A step is given up where it costs more than may be accepted by so many temperatures: little of
// that comes back when the room that is left is filled.
constexpr double kSlack = 3;
constexpr int32_t kMaxRuins = 5;     // runs taken out in one step
constexpr int32_t kNeighbours = 10;  // how far from the first one the others are, in runs
constexpr int64_t kFreeList = 4096;  // runs whose listing counts as no work
constexpr int32_t kMaxDrops = 60;    // in one step
// For each drop, priced by the exact state. Every other step looks at few, and there are more
// steps.
constexpr size_t kMaxCandidates = 10;
constexpr size_t kFewCandidates = 3;
constexpr int32_t kBlink = 8;  // one in so many candidates is overlooked
constexpr int64_t kMaxReachSteps = 1000;
constexpr double kReachHeat = 0.02;   // of the overflow may be given back
constexpr int32_t kMostMisses = 3;    // parts in which a change does not help, one way
constexpr int32_t kPart = 8;          // one in so many gaps is dropped in part
constexpr double kSmallShare = 0.25;  // of a dropped storage's bytes: inputs that may stay instead

class Ruiner {
 public:
  Ruiner(const StageGraph& graph, Retention& state, const std::vector<ArenaId>& droppable,
         Random& random, const RuinLimits& limits)
      : graph_(graph), state_(state), droppable_(droppable), random_(random), limits_(limits) {
    has_peers_ = limits.peers != nullptr && !limits.peers->is_empty();
  }

  bool run() {
    const bool is_valid = recreate(std::numeric_limits<double>::infinity());
    state_.commit();
    if (!is_valid) return false;
    Retention::Snapshot best = state_.snapshot();
    const int64_t begin = state_.work();
    for (int64_t step = 0; step < limits_.steps; ++step) {
      if (is_stop_due() || best.extra_cost <= limits_.least_cost) break;
      const double progress = std::max(
          static_cast<double>(state_.work() + listed_ - begin) / static_cast<double>(limits_.work),
          static_cast<double>(step) / static_cast<double>(limits_.steps));
      if (progress >= 1) break;
      const double temperature =
          limits_.mean_cost * limits_.hot * std::pow(kCold / limits_.hot, progress);
      const double before = state_.extra_cost();
      // The step may cost this much; drawn first, so that hopeless ones end early.
      const double bar = before - temperature * std::log(1 - random_.unit());
      most_candidates_ = random_.below(2) == 0 ? kFewCandidates : kMaxCandidates;
      const bool is_done = ruin(false) && refill(bar + kSlack * temperature);
      if (!is_done || state_.extra_cost() > bar) {
        state_.roll_back();
        continue;
      }
      const bool is_echoed = has_peers_ && state_.extra_cost() < before;
      if (is_echoed) changes_ = state_.changes();
      state_.commit();
      if (is_echoed) {
        echo(Toward::later);
        echo(Toward::earlier);
      }
      if (state_.extra_cost() < best.extra_cost * (1 - 1e-12)) best = state_.snapshot();
    }
    state_.restore(best);
    return true;
  }

  bool squeeze() {
    const int64_t end = state_.work() + limits_.work;
    return lower_peak_by_steps(
        state_,
        [&] {
          const bool is_there = reach_limit(end);
          if (is_there) limits_.on_lower();
          return is_there;
        },
        [] { return false; }, [&] { return state_.work() >= end || is_stop_due(); });
  }

 private:
  // Until nothing lies above the limit; costs do not matter.
  bool reach_limit(int64_t work_end) {
    for (int64_t step = 0; step < kMaxReachSteps && state_.work() < work_end; ++step) {
      if (is_stop_due()) return false;
      const double before = state_.overflow();
      taken_out_.clear();
      const bool is_valid = step == 0 || ruin(random_.below(2) == 0);
      if (!is_valid) {
        state_.roll_back();
        continue;
      }
      if (recreate(std::numeric_limits<double>::infinity())) {
        state_.commit();
        return true;
      }
      const double bar = before * (1 - kReachHeat * std::log(1 - random_.unit()));
      if (state_.overflow() > bar) {
        state_.roll_back();
      } else {
        state_.commit();
      }
    }
    return false;
  }

  struct Run {
    int32_t stage;
    int32_t op;
    bool operator<(const Run& other) const {
      return std::tie(stage, op) < std::tie(other.stage, other.op);
    }
  };
  struct Candidate {
    double price;
    Gap gap;
  };

  void list_runs() {
    runs_.clear();
    for (int32_t stage = 0; stage <= graph_.op_count; ++stage) {
      for (const int32_t way : state_.runs(stage)) runs_.push_back({stage, graph_.op_of(way)});
    }
    if (static_cast<int64_t>(runs_.size()) > kFreeList)
      listed_ += static_cast<int64_t>(runs_.size()) / 8;
  }
  [[nodiscard]] bool is_there(const Run& run) const { return state_.runs_again(run.op, run.stage); }
  // Where the longest gap begins that the run ends.
  [[nodiscard]] int32_t gap_begin(const Run& run) const {
    int32_t begin = run.stage;
    for (const ArenaId output : graph_.outputs[run.op]) {
      const int32_t before = state_.touches().last_before(output, run.stage);
      if (before != Touches::kNoneBefore && state_.touches().has(output, run.stage))
        begin = std::min(begin, before);
    }
    return begin;
  }
  void widen(int32_t begin, int32_t end) {
    first_ = std::min(first_, begin);
    last_ = std::max(last_, end);
  }

  bool take_out(const Run& run) {
    widen(gap_begin(run), run.stage);
    taken_out_.push_back(run.op);
    return keep_outputs(graph_, state_, run.op, run.stage);
  }

  // Takes out a repeated run and a few of its neighbours in time, whatever the limit says.
  bool ruin(bool is_near_peak) {
    list_runs();
    if (runs_.empty()) return false;
    const auto count = static_cast<int32_t>(runs_.size());
    int32_t at = random_.below(count);
    if (is_near_peak) {
      const auto peak = std::lower_bound(runs_.begin(), runs_.end(), Run{state_.worst_stage(), 0});
      at = static_cast<int32_t>(peak - runs_.begin()) + random_.below(2 * kNeighbours + 1);
      at = std::clamp(at - kNeighbours, 0, count - 1);
    }
    first_ = last_ = runs_[at].stage;
    taken_out_.clear();
    if (!take_out(runs_[at])) return false;
    const int32_t more = random_.below(kMaxRuins);
    for (int32_t i = 0; i < more; ++i) {
      const int32_t other = at + random_.below(2 * kNeighbours + 1) - kNeighbours;
      if (other < 0 || other >= static_cast<int32_t>(runs_.size())) continue;
      const Run& run = runs_[other];
      if (!is_there(run)) continue;  // it served another that is gone
      const size_t mark = state_.mark();
      if (!take_out(run)) state_.roll_back(mark);
    }
    return true;
  }

  // What has made the state cheaper, in one equal part after the other.
  void echo(Toward toward) {
    std::vector<Retention::BitChange> changes = changes_;
    for (int32_t misses = 0; misses < kMostMisses && move_to_peers(changes, toward);) {
      const double before = state_.extra_cost();
      for (const Retention::BitChange& each : changes)
        state_.plan(each.storage, each.first, each.last, each.is_retained);
      first_ = last_ = changes.front().last;
      for (const Retention::BitChange& each : changes) widen(each.first - 1, each.last);
      taken_out_.clear();
      const bool is_done = state_.settle() && refill(before);
      if (is_done && state_.extra_cost() < before * (1 - 1e-12)) {
        state_.commit();
      } else {
        state_.roll_back();
        ++misses;
      }
    }
  }

  // False where there is no further part.
  bool move_to_peers(std::vector<Retention::BitChange>& changes, Toward toward) const {
    bool is_moved = false;
    for (Retention::BitChange& each : changes) {
      const ArenaId storage = limits_.peers->storage(each.storage, toward);
      const int32_t first = limits_.peers->stage(each.first - 1, toward);
      const int32_t last = limits_.peers->stage(each.last, toward);
      if (storage == kNone || first < graph_.producer[storage] || last <= first) return false;
      is_moved = is_moved || storage != each.storage;
      each = {storage, first + 1, last, each.is_retained};
    }
    return is_moved;
  }

  // To the limit from either side; false where that costs too much, or too little.
  bool refill(double most_cost) {
    if (!recreate(most_cost)) return false;
    fill();
    return state_.extra_cost() >= limits_.least_cost;
  }

  // Drops gaps at the worst stage until the limit holds.
  bool recreate(double most_cost) {
    for (int32_t i = 0; !state_.fits(); ++i) {
      if (i == kMaxDrops || state_.extra_cost() > most_cost || is_stop_due()) return false;
      const Gap gap = cheapest(state_.worst_stage());
      if (gap.storage == kNone) return false;
      SNUG_CHECK(drop(gap), "a gap that was priced");
      widen(gap.begin, gap.end);
    }
    return true;
  }

  // The gap through the stage, or with it at an end, that costs least for what it relieves. A guess
  // from the producer's cost chooses which are looked at.
  Gap cheapest(int32_t stage) {
    list_candidates(stage);
    if (candidates_.size() > most_candidates_) {
      std::nth_element(candidates_.begin(),
                       candidates_.begin() + static_cast<ptrdiff_t>(most_candidates_),
                       candidates_.end(),
                       [](const Candidate& a, const Candidate& b) { return a.price < b.price; });
      candidates_.resize(most_candidates_);
    }
    const double cost = state_.extra_cost();
    const double overflow = state_.overflow();
    Gap best;
    double best_price = 0;
    for (const Candidate& each : candidates_) {
      const size_t mark = state_.mark();
      const bool is_valid = drop(each.gap);
      const double more_cost = state_.extra_cost() - cost;
      const double relief = overflow - state_.overflow();
      state_.roll_back(mark);
      if (!is_valid || !(relief > 0)) continue;
      const double price =
          (more_cost + 1e-6 * limits_.mean_cost) / relief * (1 + 0.5 * random_.unit());
      if (best.storage != kNone && price >= best_price) continue;
      best = each.gap;
      best_price = price;
    }
    return best;
  }

  // Drops a gap. What its op needs is made again as well, unless it is small beside what goes: then
  // it stays where that is the better price.
  bool drop(const Gap& gap) {
    const double cost = state_.extra_cost();
    const double overflow = state_.overflow();
    const int32_t op = graph_.producer[gap.storage];
    if (!state_.set(gap.storage, gap.begin + 1, gap.end, false)) return false;
    double more_cost = state_.extra_cost() - cost;
    if (more_cost <= graph_.cost[op]) return true;
    double relief = overflow - state_.overflow();
    const double most_bytes = kSmallShare * static_cast<double>(graph_.bytes[gap.storage]);
    for (const ArenaId input : graph_.inputs[op]) {
      if (static_cast<double>(graph_.bytes[input]) > most_bytes) continue;
      const Run maker{gap.end, graph_.producer[input]};
      if (!is_there(maker)) continue;
      const size_t mark = state_.mark();
      const bool is_valid = keep_outputs(graph_, state_, maker.op, maker.stage);
      const double cost_then = state_.extra_cost() - cost;
      const double relief_then = overflow - state_.overflow();
      if (is_valid && relief_then > 0 && cost_then * relief < more_cost * relief_then) {
        more_cost = cost_then;
        relief = relief_then;
      } else {
        state_.roll_back(mark);
      }
    }
    return true;
  }

  void list_candidates(int32_t stage) {
    candidates_.clear();
    for (const ArenaId id : droppable_) {
      const bool is_before = state_.is_retained(id, stage);
      const bool is_behind = state_.stays_behind(id, stage);
      if (!is_before && !is_behind) continue;
      const int32_t op = graph_.producer[id];
      if (std::find(taken_out_.begin(), taken_out_.end(), op) != taken_out_.end()) continue;
      const Touches& touches = state_.touches();
      if (is_before)
        add_candidate({id, touches.last_before(id, stage), touches.first_from(id, stage)});
      if (is_behind && touches.has(id, stage))
        add_candidate({id, stage, touches.first_from(id, stage + 1)});
    }
  }

  void add_candidate(Gap gap) {
    if (random_.below(kBlink) == 0) return;
    if (gap.end - gap.begin >= 2 && random_.below(kPart) == 0)
      gap.end = gap.begin + 1 + random_.below(gap.end - gap.begin - 1);
    const ArenaId id = gap.storage;
    const double price = graph_.cost[graph_.producer[id]] / static_cast<double>(graph_.bytes[id]) *
                         (0.3 + random_.unit());
    candidates_.push_back({price, gap});
  }

  // Takes out repeated runs where the step has left room, in about the order of cost per byte.
  void fill() {
    list_runs();
    std::vector<std::pair<double, Run>> order;
    for (const Run& run : runs_) {
      if (run.stage < first_ || gap_begin(run) > last_) continue;
      double bytes = 1;
      for (const ArenaId output : graph_.outputs[run.op])
        bytes += static_cast<double>(graph_.bytes[output]);
      const double cost = graph_.cost[run.op];
      order.emplace_back(-cost / bytes * (0.5 + random_.unit()), run);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [price, run] : order) {
      if (is_stop_due()) break;
      if (!is_there(run) || !may_keep_outputs(graph_, state_, run.op, run.stage)) continue;
      const double cost = state_.extra_cost();
      const size_t mark = state_.mark();
      const bool is_valid = keep_outputs(graph_, state_, run.op, run.stage);
      if (!is_valid || !state_.fits() || state_.extra_cost() >= cost) state_.roll_back(mark);
    }
  }

  const StageGraph& graph_;
  Retention& state_;
  const std::vector<ArenaId>& droppable_;
  Random& random_;
  const RuinLimits& limits_;
  bool has_peers_ = false;
  IndexVector<Run> runs_;
  int64_t listed_ = 0;              // work of listing runs, where they are many
  std::vector<int32_t> taken_out_;  // ops: not dropped again in the same step
  std::vector<Candidate> candidates_;
  size_t most_candidates_ = kMaxCandidates;
  std::vector<Retention::BitChange> changes_;  // of the newest step
  int32_t first_ = 0;                          // the stages that the step has touched
  int32_t last_ = 0;
};

}  // namespace

bool ruin_and_recreate(const StageGraph& graph, Retention& state,
                       const std::vector<ArenaId>& droppable, Random& random,
                       const RuinLimits& limits) {
  if (droppable.empty() || limits.work <= 0) return state.fits();
  return Ruiner(graph, state, droppable, random, limits).run();
}

bool squeeze(const StageGraph& graph, Retention& state, const std::vector<ArenaId>& droppable,
             Random& random, const RuinLimits& limits) {
  if (droppable.empty()) return state.fits();
  return Ruiner(graph, state, droppable, random, limits).squeeze();
}

}  // namespace snug::plan
