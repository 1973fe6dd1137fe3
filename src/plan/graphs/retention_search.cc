// SPDX-License-Identifier: Apache-2.0
#include "plan/graphs/retention_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/stop.h"
#include "plan/graphs/peers.h"
#include "plan/graphs/retention.h"
#include "plan/graphs/retention_greedy.h"
#include "plan/graphs/retention_ruin.h"
#include "plan/graphs/retention_starts.h"

namespace snug::plan {
namespace {

// Temperatures in units of the mean cost of an op.
struct Cooling {
  double hot = 0;
  double cold = 0;
};
constexpr Cooling kRepair{1, 0.02};
constexpr double kRuinWork = 400e6;
constexpr double kRuinSteps = 200e3;
constexpr double kSqueezeWork = 200e6;
constexpr double kWayShare = 0.7;  // of each squeeze where somebody waits: there are three or so
constexpr double kSqueezesWork = 600e6;  // of all together; then no further one begins
constexpr uint64_t kMoreSqueezes = 6;
// Small graphs are improved often, from different starts: what is decided while it is hot is a
// gamble. Large ones are many small ones and need the length.
struct Rounds {
  int32_t count = 1;
  double length = 1;  // of each, of kRuinWork and kRuinSteps
};
// Below so many ops a round is shorter in proportion: what a small graph has to decide is soon
// tried.
constexpr double kFullOps = 400;
Rounds rounds_for(int32_t ops) {
  if (ops < kManyStages) return {6, std::min(1.0, ops / kFullOps) / 3};
  if (ops < kManyMoreStages) return {2, 0.5};
  return {1, 1};
}
// Below the limit, where the starts of the rounds after the first come from.
constexpr std::array kTighter = {0.1, 0.15, 0.05};
constexpr double kTightLength = 0.3;  // of a round
// Beyond this the state in which nothing is retained is too long.
constexpr int32_t kMaxOpsToDropAll = 3000;
constexpr double kLowerWork = 600e6;
constexpr int64_t kLowerMoves = 50'000;  // in one step
constexpr double kLowerRise = 5;
constexpr double kLowerMostFirst = 300;
// The price of overflow, in mean costs for a mean storage's bytes.
struct Price {
  double first = 0;
  double last = 0;
};
constexpr Price kHigh{1, 1000};
// Work of a search that somebody waits for: up to a second below kManyStages, three at 5,000 ops. A
// unit of it takes less time in a small graph, whose stages are short.
constexpr int32_t kFewOps = 200;
constexpr double kWorkOfOp = 200e3;
constexpr double kMostWorkOfFew = 12e6;
constexpr double kWorkOfMany = 6e6;
constexpr double kWorkOfMore = 2e3;
constexpr int32_t kCuts = 32;
constexpr int32_t kCutsOfMany = 6;
constexpr double kDearestOfMany = 3;
constexpr double kKeepShare = 0.5;  // of the moves look for a repeated run to take out

class Searcher {
 public:
  Searcher(const ProblemIndex& index, const StageGraph& graph, int64_t limit_bytes,
           const RetentionLimits& limits)
      : index_(index),
        graph_(graph),
        limits_(limits),
        state_(graph, limit_bytes),
        random_(limits.seed),
        droppable_(droppable(graph)),
        mean_cost_(mean_cost(graph, droppable_)) {
    double bytes = 0;
    for (const ArenaId id : droppable_) bytes += static_cast<double>(graph.bytes[id]);
    if (bytes > 0) mean_bytes_ = bytes / static_cast<double>(droppable_.size());
    moves_ = static_cast<int64_t>(limits.factor * (600'000 + 400.0 * graph.op_count));
    work_limit_ = static_cast<int64_t>(limits.factor * 600e6);
  }

  RetentionResult run() {
    peers_.emplace(index_, graph_);
    const std::vector<Start> starts = find();
    const bool has_begun = start();
    if (!has_begun && starts.empty()) return {false, smallest_schedule_, smallest_peak_, 0};
    const Retention::Snapshot begin = has_begun ? state_.snapshot() : starts.front().state;
    Retention::Snapshot best = begin;
    const Rounds rounds = rounds_for(graph_.op_count);
    for (int32_t round = 0; round < rounds.count && !is_stop_due(); ++round) {
      if (best.extra_cost <= 0) break;  // every op runs once
      state_.restore(begin);
      if (round > 0) come_from_below(round, rounds.length * kTightLength);
      take_better(rounds.length, best);
    }
    if (!starts.empty() && !is_stop_due() && best.extra_cost > 0) {
      state_.restore(starts.front().state);
      take_better(rounds.length, best);
    }
    return found(best);
  }

  std::vector<Start> way_down() {
    greedy_work_ = static_cast<int64_t>(limits_.factor * quick_work(graph_));
    limits_.factor *= kWayShare * quick_work(graph_) / kSqueezeWork;
    is_way_wanted_ = true;
    (void)start();
    return std::move(way_);
  }

 private:
  std::vector<Start> find() {
    const Retention::Snapshot keep_all = state_.snapshot();
    StartLimits limits;
    limits.cuts = graph_.op_count < kManyStages ? kCuts : kCutsOfMany;
    limits.work = static_cast<int64_t>(limits_.factor * quick_work(graph_) / 2);
    limits.mean_cost = mean_cost_;
    if (graph_.op_count >= kManyStages) limits.dearest = kDearestOfMany;
    std::vector<Start> starts =
        StartFinder(index_, graph_, state_, droppable_).find(limits_.schedules, random_, limits);
    state_.restore(keep_all);
    return starts;
  }

  void take_better(double length, Retention::Snapshot& best) {
    if (improve(length) && state_.extra_cost() < best.extra_cost) best = state_.snapshot();
  }

  RetentionResult found(const Retention::Snapshot& best) {
    state_.restore(best);
    return {true, state_.schedule(), state_.peak(), graph_.base_cost + state_.extra_cost()};
  }

  bool improve(double length) {
    RuinLimits limits;
    limits.work = static_cast<int64_t>(limits_.factor * length * kRuinWork);
    limits.steps = static_cast<int64_t>(limits_.factor * length * kRuinSteps);
    limits.mean_cost = mean_cost_;
    limits.peers = &*peers_;
    return ruin_and_recreate(graph_, state_, droppable_, random_, limits);
  }

  // Where dear runs stand for several cheap ones, no small step gets from one to the other. Under a
  // lower limit more runs again, and what the room back at the limit takes out first is dear.
  void come_from_below(int32_t round, double length) {
    const int64_t limit = state_.limit_bytes();
    const double less = kTighter[static_cast<size_t>(round - 1) % kTighter.size()];
    state_.set_limit(static_cast<int64_t>((1 - less) * static_cast<double>(limit)));
    (void)improve(length);  // as far as it gets
    state_.set_limit(limit);
    fill_room(graph_, state_);
  }

  // Remembers the smallest state seen.
  bool holds(bool fits) {
    note();
    if (smallest_schedule_.empty() || state_.peak() < smallest_peak_) {
      smallest_peak_ = state_.peak();
      smallest_schedule_ = state_.schedule();
    }
    return fits;
  }

  // A state on the way down.
  void note() {
    if (is_way_wanted_ && (way_.empty() || state_.peak() < way_.back().peak_bytes))
      way_.push_back(start_of(state_));
  }

  // Any state that fits; tries ever slower ways.
  bool start() {
    const Retention::Snapshot keep_all = state_.snapshot();
    const bool is_greedy_enough = holds(drop_until_fits(state_, droppable_, greedy_work_));
    bool fits = is_greedy_enough;
    if (graph_.op_count < kManyStages) {
      if (fits || is_stop_due()) return fits;
      fits = holds(clear_peaks(graph_, state_, droppable_)) || squeeze_often(keep_all);
    } else {
      if (is_stop_due() || (fits && state_.extra_cost() <= graph_.base_cost)) return fits;
      // Stuck, or so dear that every stage is long: then little can be improved afterwards.
      const Retention::Snapshot greedy = state_.snapshot();
      fits = holds(lower_from(keep_all)) ||
             (!is_stop_due() && holds(squeeze_from(state_.snapshot()))) ||
             (graph_.op_count <= kMaxOpsToDropAll && !is_stop_due() &&
              (holds(squeeze_from(keep_all)) ||
               (state_.drop_all() && holds(squeeze_from(state_.snapshot())))));
      if (is_greedy_enough && (!fits || greedy.extra_cost < state_.extra_cost())) {
        state_.restore(greedy);
        fits = true;
      }
    }
    if (fits && !is_way_wanted_) fill_room(graph_, state_);
    return fits;
  }

  // Lowers the peak by a few per cent at a time with annealing at a high price on overflow, which
  // becomes higher before the steps become smaller. At every height cost counts, so that stages
  // stay short: that makes the next step possible, and fast.
  bool lower_from(const Retention::Snapshot& begin) {
    random_ = Random(limits_.seed);
    state_.restore(begin);
    const int64_t work_end = state_.work() + static_cast<int64_t>(limits_.factor * kLowerWork);
    Price price = kHigh;
    return lower_peak_by_steps(
        state_,
        [&] {
          const bool is_there = repair(kLowerMoves, price);
          if (is_there) note();
          return is_there;
        },
        [&] {
          if (price.first >= kLowerMostFirst) return false;
          price.first *= kLowerRise;
          return true;
        },
        [&] { return state_.work() >= work_end || is_stop_due(); });
  }

  // From keep-all and from nothing retained; then again with other random numbers from where it
  // went lower, since the way down is a gamble.
  bool squeeze_often(const Retention::Snapshot& keep_all) {
    const int64_t work_end = state_.work() + static_cast<int64_t>(limits_.factor * kSqueezesWork);
    if (holds(squeeze_from(keep_all)) || is_stop_due()) return state_.fits();
    Retention::Snapshot begin = keep_all;
    const int64_t peak = state_.peak();
    if (state_.drop_all()) {
      const Retention::Snapshot nothing = state_.snapshot();
      if (holds(squeeze_from(nothing)) || is_stop_due()) return state_.fits();
      if (state_.peak() <= peak) begin = nothing;
    }
    const int64_t bound = pinned_order_bound(graph_).bytes;
    for (uint64_t i = 1; i <= kMoreSqueezes && state_.work() < work_end; ++i) {
      if (smallest_peak_ <= bound || is_time_up(0)) break;
      if (holds(squeeze_from(begin, i))) return true;
    }
    return false;
  }

  bool squeeze_from(const Retention::Snapshot& begin, uint64_t number = 0) {
    RuinLimits limits;
    limits.work = static_cast<int64_t>(limits_.factor * kSqueezeWork);
    limits.mean_cost = mean_cost_;
    // Its own numbers, so that what it reaches does not depend on what came before.
    Random random(limits_.seed + number);
    limits.on_lower = [this] { note(); };
    state_.restore(begin);
    return squeeze(graph_, state_, droppable_, random, limits);
  }

  bool is_time_up(int64_t move) { return move % 16 == 0 && is_stop_due(); }

  [[nodiscard]] bool accepts(double change, double temperature) {
    return change <= 0 || random_.unit() < std::exp(-change / temperature);
  }

  // Bytes above the limit are allowed at a price that grows.
  bool repair(int64_t moves, Price price_range) {
    if (droppable_.empty()) return state_.fits();
    const auto work_share =
        static_cast<double>(work_limit_) * static_cast<double>(moves) / static_cast<double>(moves_);
    const int64_t work_end = state_.work() + static_cast<int64_t>(work_share);
    for (int64_t move = 0; move < moves && !is_time_up(move); ++move) {
      if (state_.fits() || (move % 1024 == 0 && state_.work() > work_end)) break;
      const double progress = static_cast<double>(move) / static_cast<double>(moves);
      const double temperature =
          mean_cost_ * kRepair.hot * std::pow(kRepair.cold / kRepair.hot, progress);
      const double price = mean_cost_ / mean_bytes_ * price_range.first *
                           std::pow(price_range.last / price_range.first, progress);
      const double cost = state_.extra_cost();
      const double overflow = state_.overflow();
      const bool is_valid = overflow > 0 && random_.below(2) == 0 ? propose_at_peak() : propose();
      if (is_valid && accepts(state_.extra_cost() - cost + price * (state_.overflow() - overflow),
                              temperature)) {
        state_.commit();
      } else {
        state_.roll_back();
      }
    }
    return state_.fits();
  }

  struct Choice {
    ArenaId storage;
    int32_t begin = 0;
    int32_t end = 0;
    bool is_retained = false;
  };

  Choice choose_gap() {
    const int32_t tries = random_.unit() < kKeepShare ? 30 : 1;
    Choice choice;
    for (int32_t i = 0; i < tries; ++i) {
      const ArenaId id = random_.pick(droppable_);
      const Touches& touches = state_.touches();
      const int32_t count = touches.count(id);
      if (count < 2) continue;
      const int32_t begin = touches.nth(id, random_.below(count - 1));
      const int32_t end = touches.first_from(id, begin + 1);
      choice = {id, begin, end, state_.is_retained(id, end)};
      if (!choice.is_retained) break;
    }
    return choice;
  }

  // A stage strictly between the ends, rather one where an input of the storage's op is at hand.
  int32_t stage_inside(const Choice& choice) {
    const auto inputs = graph_.inputs[graph_.producer[choice.storage]];
    if (!inputs.empty() && random_.below(4) != 0) {
      const ArenaId input = random_.pick(inputs);
      inside_.clear();
      for (int32_t at = state_.touches().first_from(input, choice.begin + 1); at < choice.end;
           at = state_.touches().first_from(input, at + 1))
        inside_.push_back(at);
      if (!inside_.empty()) return random_.pick(inside_);
    }
    return choice.begin + 1 + random_.below(choice.end - choice.begin - 1);
  }

  // A gap is dropped, as a whole or up to a stage where the storage is made again; or a repeated
  // run is taken out or moved forward.
  bool propose() {
    const Choice choice = choose_gap();
    if (choice.storage == kNone) return false;
    const bool is_part = choice.end - choice.begin >= 2 && random_.below(6) == 0;
    const int32_t inside = is_part ? stage_inside(choice) : 0;
    if (choice.is_retained) {
      return state_.set(choice.storage, choice.begin + 1, is_part ? inside : choice.end, false);
    }
    const int32_t op = graph_.producer[choice.storage];
    return is_part ? state_.set(choice.storage, inside + 1, choice.end, true)
                   : keep_outputs(graph_, state_, op, choice.end);
  }

  // A move on something that is in memory, or made again, at the worst stage.
  bool propose_at_peak() {
    const int32_t worst = state_.worst_stage();
    const auto runs = state_.runs(worst);
    if (!runs.empty() && random_.below(3) == 0)
      return move_run(graph_.op_of(random_.pick(runs)), worst);
    for (int32_t i = 0; i < 20; ++i) {
      const ArenaId id = random_.pick(droppable_);
      const bool is_behind = state_.stays_behind(id, worst);
      if (!state_.is_retained(id, worst) && !is_behind) continue;
      const Touches& touches = state_.touches();
      const bool is_touched = touches.has(id, worst);
      const bool is_next = is_touched && is_behind && random_.below(2) == 0;
      const int32_t begin = is_next ? worst : touches.last_before(id, worst);
      int32_t end = touches.first_from(id, is_next ? worst + 1 : worst);
      if (begin == Touches::kNoneBefore || end == Touches::kNoneBehind) continue;
      if (!state_.is_retained(id, end)) continue;
      if (end - begin >= 2 && random_.below(6) == 0)
        end = begin + 1 + random_.below(end - begin - 1);
      return state_.set(id, begin + 1, end, false);
    }
    return false;
  }

  // A repeated run at the worst stage goes, or comes earlier.
  bool move_run(int32_t op, int32_t stage) {
    const auto outputs = graph_.outputs[op];
    if (outputs.empty()) return false;
    const ArenaId id = random_.pick(outputs);
    const int32_t begin = state_.touches().last_before(id, stage);
    if (begin == Touches::kNoneBefore) return false;
    if (stage - begin < 2 || random_.below(2) == 0) return keep_outputs(graph_, state_, op, stage);
    return state_.set(id, begin + 2 + random_.below(stage - begin - 1), stage, true);
  }

  const ProblemIndex& index_;
  const StageGraph& graph_;
  std::optional<Peers> peers_;  // of `run`
  RetentionLimits limits_;
  Retention state_;
  Random random_;
  std::vector<ArenaId> droppable_;
  std::vector<int32_t> inside_;  // scratch: stages
  double mean_cost_ = 1;
  double mean_bytes_ = 1;
  int64_t moves_ = 0;
  int64_t work_limit_ = 0;
  int64_t greedy_work_ = kMostGreedyWork;
  bool is_way_wanted_ = false;
  std::vector<Start> way_;
  std::vector<OpId> smallest_schedule_;
  int64_t smallest_peak_ = 0;
};

}  // namespace

double quick_work(const StageGraph& graph) {
  const auto ops = static_cast<double>(graph.op_count);
  if (graph.op_count <= kFewOps) return std::min(kMostWorkOfFew, ops * kWorkOfOp);
  return kWorkOfMany + ops * kWorkOfMore;
}

std::vector<Start> lowest_states(const ProblemIndex& index, const StageGraph& graph,
                                 const RetentionLimits& limits) {
  return Searcher(index, graph, pinned_order_bound(graph).bytes, limits).way_down();
}

RetentionResult search_retention(const ProblemIndex& index, const StageGraph& graph,
                                 int64_t limit_bytes, const RetentionLimits& limits) {
  return Searcher(index, graph, limit_bytes, limits).run();
}

}  // namespace snug::plan
