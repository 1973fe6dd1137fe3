// SPDX-License-Identifier: Apache-2.0
#include "plan/retention_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/retention.h"
#include "plan/retention_greedy.h"

namespace snug::plan {
namespace {

using Touch = Retention::Touch;

// SplitMix64: small, and the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0xD6E8FEB86659FD93ull) {}
  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ull;
    uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
    return mixed ^ (mixed >> 31);
  }
  int32_t below(int32_t limit) {
    return static_cast<int32_t>((next() >> 32) * static_cast<uint64_t>(limit) >> 32);
  }
  template <class Container>
  auto pick(const Container& from) {
    return from[static_cast<size_t>(below(static_cast<int32_t>(from.size())))];
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

// Temperatures in units of the mean cost of an op.
struct Cooling {
  double hot = 0;
  double cold = 0;
};
constexpr Cooling kRestart{3, 0.02};
constexpr Cooling kPolish{0.1, 0.001};
constexpr Cooling kRepair{1, 0.02};
// Of overflow, in mean costs for a mean storage's bytes.
struct Price {
  double first = 0;
  double last = 0;
};
constexpr Price kGrowing{0.02, 50};
constexpr Price kHigh{1, 1000};
constexpr double kKeepShare = 0.5;  // of the moves look for a repeated run to take out
constexpr int32_t kMaxEjections = 12;

class Annealer {
 public:
  Annealer(const StageGraph& graph, int64_t limit_bytes, const RetentionLimits& limits)
      : graph_(graph),
        limits_(limits),
        state_(graph, limit_bytes),
        random_(limits.seed),
        droppable_(droppable(graph)) {
    double cost = 0;
    double bytes = 0;
    for (const int32_t id : droppable_) {
      cost += graph.cost[static_cast<size_t>(graph.producer[static_cast<size_t>(id)])];
      bytes += static_cast<double>(graph.bytes[static_cast<size_t>(id)]);
    }
    if (cost > 0) mean_cost_ = cost / static_cast<double>(droppable_.size());
    if (bytes > 0) mean_bytes_ = bytes / static_cast<double>(droppable_.size());
    moves_ = static_cast<int64_t>(limits.effort * (600'000 + 400.0 * graph.op_count));
    work_limit_ = static_cast<int64_t>(limits.effort * 600e6);
  }

  RetentionResult run() {
    const Retention::Snapshot keep_all = state_.snapshot();
    if (!start()) return {false, smallest_schedule_, smallest_peak_, 0};
    best_ = state_.snapshot();
    const Retention::Snapshot begin = best_;
    // Lengths 1 1 2 1 1 2 4 ...: many short rounds see different parts of the landscape, few long
    // ones go deep.
    const int32_t rounds = graph_.op_count < 500 ? 31 : graph_.op_count < 1500 ? 15 : 3;
    int64_t units = 0;
    for (int32_t round = 1; round <= rounds; ++round) units += round_length(round);
    for (int32_t round = 1; round <= rounds && !is_stopped_; ++round) {
      const int64_t moves = moves_ / units * round_length(round);
      // Every other round comes from another side: where the budget is tight, states that fit are
      // islands.
      state_.restore(keep_all);
      if (random_.below(2) == 0 || !repair(moves / 2, kGrowing)) state_.restore(begin);
      anneal(moves, kRestart);
    }
    state_.restore(best_);
    anneal(moves_ / 4, kPolish);
    state_.restore(best_);
    return {true, state_.schedule(), state_.peak(), graph_.base_cost + state_.extra_cost()};
  }

 private:
  // The Luby sequence.
  static int64_t round_length(int32_t round) {
    int32_t power = 1;
    while (power < round + 1) power *= 2;
    return power == round + 1 ? power / 2 : round_length(round - power / 2 + 1);
  }

  // Any state that fits; tries ever slower ways.
  bool start() {
    const auto holds = [&](bool fits) {
      if (smallest_schedule_.empty() || state_.peak() < smallest_peak_) {
        smallest_peak_ = state_.peak();
        smallest_schedule_ = state_.schedule();
      }
      return fits;
    };
    if (holds(drop_until_fits(state_, droppable_))) return true;
    const bool fits =
        holds(clear_peaks(graph_, state_, droppable_)) || holds(repair(moves_, kGrowing)) ||
        (graph_.op_count <= kMaxOpsToDropAll && state_.drop_all() && holds(state_.fits())) ||
        holds(repair(moves_, kGrowing)) || holds(repair(moves_, kHigh)) ||
        holds(clear_peaks(graph_, state_, droppable_));
    if (fits) fill_room(graph_, state_);
    return fits;
  }

  bool is_time_up(int64_t move) {
    if (move % 1024 != 0 || !limits_.should_stop) return is_stopped_;
    is_stopped_ = is_stopped_ || limits_.should_stop();
    return is_stopped_;
  }

  [[nodiscard]] bool accepts(double change, double temperature) {
    return change <= 0 || random_.unit() < std::exp(-change / temperature);
  }

  // Within the limit all the time; remembers the best state.
  void anneal(int64_t moves, Cooling cooling) {
    if (droppable_.empty()) return;
    const int64_t work_begin = state_.work();
    const double work_share =
        static_cast<double>(work_limit_) * static_cast<double>(moves) / static_cast<double>(moves_);
    double temperature = cooling.hot * mean_cost_;
    int64_t last_saved = 0;
    for (int64_t move = 0; move < moves && !is_time_up(move); ++move) {
      if (move % 64 == 0) {
        const double progress =
            std::max(static_cast<double>(move) / static_cast<double>(moves),
                     static_cast<double>(state_.work() - work_begin) / work_share);
        if (progress >= 1) break;
        temperature = mean_cost_ * cooling.hot * std::pow(cooling.cold / cooling.hot, progress);
      }
      const double before = state_.extra_cost();
      if (!propose(kMaxEjections) || !state_.fits() ||
          !accepts(state_.extra_cost() - before, temperature)) {
        state_.roll_back();
        continue;
      }
      state_.commit();
      // A snapshot is as long as the state: not at every step down.
      if (state_.extra_cost() < best_.extra_cost && move - last_saved > moves / 200) {
        best_ = state_.snapshot();
        last_saved = move;
      }
    }
    fill_room(graph_, state_);
    if (state_.extra_cost() < best_.extra_cost) best_ = state_.snapshot();
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
      const bool is_valid = overflow > 0 && random_.below(2) == 0 ? propose_at_peak() : propose(0);
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
    int32_t storage = -1;
    int32_t begin = 0;
    int32_t end = 0;
    bool is_retained = false;
  };

  Choice choose_gap() {
    const int32_t tries = random_.unit() < kKeepShare ? 30 : 1;
    Choice choice;
    for (int32_t i = 0; i < tries; ++i) {
      const int32_t id = random_.pick(droppable_);
      const auto touches = state_.touches(id);
      if (touches.size() < 2) continue;
      const auto at = static_cast<size_t>(random_.below(static_cast<int32_t>(touches.size()) - 1));
      const int32_t end = touches[at + 1].stage;
      choice = {id, touches[at].stage, end, state_.is_retained(id, end)};
      if (!choice.is_retained) break;
    }
    return choice;
  }

  // A stage strictly between the ends, rather one where an input of the storage's op is at hand.
  int32_t stage_inside(const Choice& choice) {
    const auto inputs = graph_.inputs[graph_.producer[static_cast<size_t>(choice.storage)]];
    if (!inputs.empty() && random_.below(4) != 0) {
      const auto touches = state_.touches(random_.pick(inputs));
      const auto first =
          std::upper_bound(touches.begin(), touches.end(), choice.begin,
                           [](int32_t t, const Touch& each) { return t < each.stage; });
      const auto last =
          std::lower_bound(first, touches.end(), choice.end,
                           [](const Touch& each, int32_t t) { return each.stage < t; });
      if (first != last) return first[random_.below(static_cast<int32_t>(last - first))].stage;
    }
    return choice.begin + 1 + random_.below(choice.end - choice.begin - 1);
  }

  // A gap is dropped, as a whole or up to a stage where the storage is made again; or a repeated
  // run is taken out or moved forward, and something else makes room.
  bool propose(int32_t ejections) {
    const Choice choice = choose_gap();
    if (choice.storage < 0) return false;
    const bool is_part = choice.end - choice.begin >= 2 && random_.below(6) == 0;
    const int32_t inside = is_part ? stage_inside(choice) : 0;
    if (choice.is_retained) {
      return state_.set(choice.storage, choice.begin + 1, is_part ? inside : choice.end, false);
    }
    const int32_t op = graph_.producer[static_cast<size_t>(choice.storage)];
    const bool is_valid = is_part ? state_.set(choice.storage, inside + 1, choice.end, true)
                                  : keep_outputs(graph_, state_, op, choice.end);
    return is_valid && (ejections == 0 || make_room(choice.storage, ejections));
  }

  // Drops cheap gaps through the worst stage until the limit holds.
  bool make_room(int32_t kept, int32_t ejections) {
    for (; !state_.fits(); --ejections) {
      if (ejections == 0) return false;
      const int32_t worst = state_.worst_stage();
      Gap best;
      double best_price = 0;
      int32_t found = 0;
      for (int32_t i = 0; i < 40 && found < 3; ++i) {
        const int32_t id = random_.pick(droppable_);
        if (id == kept || !state_.is_retained(id, worst)) continue;
        const Gap gap = gap_through(state_, id, worst);
        if (gap.storage < 0) continue;
        ++found;
        const double price =
            graph_.cost[static_cast<size_t>(graph_.producer[static_cast<size_t>(id)])] /
            static_cast<double>(graph_.bytes[static_cast<size_t>(id)]) * (0.5 + random_.unit());
        if (best.storage < 0 || price < best_price) {
          best = gap;
          best_price = price;
        }
      }
      if (best.storage < 0 || !state_.set(best.storage, best.begin + 1, best.end, false))
        return false;
    }
    return true;
  }

  // A move on something that is in memory, or made again, at the worst stage.
  bool propose_at_peak() {
    const int32_t worst = state_.worst_stage();
    const auto runs = state_.runs(worst);
    if (!runs.empty() && random_.below(3) == 0) return move_run(random_.pick(runs), worst);
    for (int32_t i = 0; i < 20; ++i) {
      const int32_t id = random_.pick(droppable_);
      const bool is_behind = worst < graph_.op_count && state_.is_retained(id, worst + 1);
      if (!state_.is_retained(id, worst) && !is_behind) continue;
      const auto touches = state_.touches(id);
      auto next = std::lower_bound(touches.begin(), touches.end(), worst,
                                   [](const Touch& each, int32_t t) { return each.stage < t; });
      if (next != touches.end() && next->stage == worst && is_behind && random_.below(2) == 0)
        ++next;
      if (next == touches.begin() || next == touches.end()) continue;
      const int32_t begin = std::prev(next)->stage;
      if (!state_.is_retained(id, next->stage)) continue;
      int32_t end = next->stage;
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
    const int32_t id = random_.pick(outputs);
    const auto touches = state_.touches(id);
    const auto found =
        std::lower_bound(touches.begin(), touches.end(), stage,
                         [](const Touch& each, int32_t t) { return each.stage < t; });
    if (found == touches.begin()) return false;
    const int32_t begin = std::prev(found)->stage;
    if (stage - begin < 2 || random_.below(2) == 0) return keep_outputs(graph_, state_, op, stage);
    return state_.set(id, begin + 2 + random_.below(stage - begin - 1), stage, true);
  }

  // Beyond this the state in which nothing is retained is too long.
  static constexpr int32_t kMaxOpsToDropAll = 3000;

  const StageGraph& graph_;
  const RetentionLimits& limits_;
  Retention state_;
  Random random_;
  std::vector<int32_t> droppable_;
  double mean_cost_ = 1;
  double mean_bytes_ = 1;
  int64_t moves_ = 0;
  int64_t work_limit_ = 0;
  bool is_stopped_ = false;
  Retention::Snapshot best_;
  std::vector<OpId> smallest_schedule_;
  int64_t smallest_peak_ = 0;
};

}  // namespace

RetentionResult search_retention(const StageGraph& graph, int64_t limit_bytes,
                                 const RetentionLimits& limits) {
  return Annealer(graph, limit_bytes, limits).run();
}

}  // namespace snug::plan
