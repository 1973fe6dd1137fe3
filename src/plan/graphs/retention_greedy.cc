// SPDX-License-Identifier: Apache-2.0
#include "plan/graphs/retention_greedy.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <span>

#include "base/index_vector.h"
#include "base/stop.h"

namespace snug::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int32_t kMaxRounds = 50;

bool is_retained_gap(const Retention& state, const Gap& gap) {
  const Touches& touches = state.touches();
  return state.is_retained(gap.storage, gap.end) && touches.has(gap.storage, gap.begin) &&
         touches.first_from(gap.storage, gap.begin + 1) == gap.end;
}

bool drop(Retention& state, const Gap& gap) {
  return state.set(gap.storage, gap.begin + 1, gap.end, false);
}

// Cost for each byte and stage of overflow that goes; infinite where none does. `overflow` is the
// state's, which takes long to sum where much lies above the limit.
double price_of(Retention& state, const Gap& gap, double overflow) {
  const double cost = state.extra_cost();
  const bool is_valid = drop(state, gap);
  const double gain = overflow - state.overflow();
  const double price = is_valid && gain > 0 ? (state.extra_cost() - cost + 1e-30) / gain : kNever;
  state.roll_back();
  return price;
}

}  // namespace

Gap gap_through(const Retention& state, ArenaId storage, int32_t stage, bool may_end_there) {
  const int32_t begin = state.touches().last_before(storage, stage);
  const int32_t end = state.touches().first_from(storage, stage);
  if (begin == Touches::kNoneBefore || end == Touches::kNoneBehind) return {};
  if (end == stage && !may_end_there) return {};
  return {storage, begin, end};
}

std::vector<ArenaId> droppable(const StageGraph& graph) {
  std::vector<ArenaId> result;
  for (const ArenaId id : graph.bytes.ids()) {
    const int32_t op = graph.producer[id];
    const bool may_run_again = graph.last_stage[op] > op;
    if (graph.bytes[id] > 0 && may_run_again && !graph.readers[id].empty()) result.push_back(id);
  }
  return result;
}

// The gaps that a repeated run ends: from each output that is needed of it back to where that was
// last there.
static std::vector<Gap> gaps_before(const StageGraph& graph, const Retention& state, int32_t op,
                                    int32_t stage) {
  std::vector<Gap> gaps;
  for (const ArenaId output : graph.outputs[op]) {
    const int32_t begin = state.touches().last_before(output, stage);
    if (begin == Touches::kNoneBefore || !state.touches().has(output, stage)) continue;
    const bool is_needed = state.stays_behind(output, stage) || state.is_read(output, stage);
    if (is_needed) gaps.push_back({output, begin, stage});
  }
  return gaps;
}

bool keep_outputs(const StageGraph& graph, Retention& state, int32_t op, int32_t stage) {
  // All together: one alone would be let go again, since the run makes it anyway.
  for (const Gap& gap : gaps_before(graph, state, op, stage))
    state.plan(gap.storage, gap.begin + 1, gap.end, true);
  return state.settle();
}

namespace {

// What is in memory up to a repeated run for the sake of that run only, and goes with it.
struct LetGo {
  ArenaId storage;
  int32_t from = 0;  // the stage behind which it is let go; that or an earlier one
};

class GoneRuns {
 public:
  GoneRuns(const StageGraph& graph, const Retention& state, int32_t op, int32_t stage)
      : graph_(graph), state_(state), stage_(stage) {
    gone_.push_back(op);
    for (size_t i = 0; i < gone_.size(); ++i) {
      for (const ArenaId input : graph_.inputs[way_of(gone_[i])]) look_at(input);
    }
  }
  [[nodiscard]] const std::vector<LetGo>& let_go() const { return let_go_; }

 private:
  void look_at(ArenaId input) {
    if (is_needed(input)) return;
    const int32_t maker = graph_.producer[input];
    if (state_.is_retained(input, stage_)) {
      const auto is_same = [&](const LetGo& each) { return each.storage == input; };
      if (std::none_of(let_go_.begin(), let_go_.end(), is_same))
        let_go_.push_back({input, let_go_from(input)});
      return;
    }
    if (std::find(gone_.begin(), gone_.end(), maker) != gone_.end()) return;
    for (const ArenaId output : graph_.outputs[maker]) {
      if (is_needed(output)) return;
    }
    gone_.push_back(maker);
  }
  // Where it was made again to be here, that run may go as well, and so on.
  [[nodiscard]] int32_t let_go_from(ArenaId storage) const {
    const int32_t before = state_.touches().last_before(storage, stage_);
    const int32_t maker = graph_.producer[storage];
    if (before == Touches::kNoneBefore || before == maker) return before;
    return state_.runs_again(maker, before) ? Touches::kNoneBefore : before;
  }
  // By what stays in the stage or comes behind it.
  [[nodiscard]] bool is_needed(ArenaId storage) const {
    if (state_.stays_behind(storage, stage_)) return true;
    for (const int32_t reader : graph_.readers[storage]) {
      if (reader >= stage_) return reader == stage_;
      if (std::find(gone_.begin(), gone_.end(), reader) == gone_.end() &&
          state_.runs_again(reader, stage_))
        return true;
    }
    return false;
  }
  [[nodiscard]] int32_t way_of(int32_t op) const {
    const int32_t way = state_.find_run(op, stage_);
    return way < 0 ? op : way;
  }

  const StageGraph& graph_;
  const Retention& state_;
  int32_t stage_;
  std::vector<int32_t> gone_;  // ops
  std::vector<LetGo> let_go_;
};

}  // namespace

bool may_keep_outputs(const StageGraph& graph, const Retention& state, int32_t op, int32_t stage) {
  struct Change {
    int32_t stage;  // from here on
    int64_t bytes;
    bool operator<(const Change& other) const { return stage < other.stage; }
  };
  std::vector<Change> changes;
  int32_t first = stage;
  for (const Gap& gap : gaps_before(graph, state, op, stage)) {
    changes.push_back({gap.begin + 1, graph.bytes[gap.storage]});
    first = std::min(first, gap.begin + 1);
  }
  if (first >= stage) return true;
  const GoneRuns gone(graph, state, op, stage);
  for (const LetGo& each : gone.let_go())
    changes.push_back({std::max(first, each.from + 1), -graph.bytes[each.storage]});
  std::sort(changes.begin(), changes.end());
  int64_t more = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    more += changes[i].bytes;
    const int32_t end = i + 1 < changes.size() ? std::min(changes[i + 1].stage, stage) : stage;
    const int32_t begin = changes[i].stage;
    if (begin < end && state.room(begin, end - 1) < static_cast<double>(more)) return false;
  }
  return true;
}

double mean_cost(const StageGraph& graph, const std::vector<ArenaId>& storages) {
  double cost = 0;
  for (const ArenaId id : storages) cost += graph.cost[graph.producer[id]];
  return cost > 0 ? cost / static_cast<double>(storages.size()) : 1;
}

bool drop_until_fits(Retention& state, const std::vector<ArenaId>& storages, int64_t most_work) {
  struct Item {
    double price;
    Gap gap;
    bool operator<(const Item& other) const { return price > other.price; }
  };
  const int64_t work_end = state.work() + most_work;
  for (int32_t round = 0; round < kMaxRounds && !state.fits() && state.work() < work_end; ++round) {
    std::priority_queue<Item> queue;
    double overflow = state.overflow();
    for (const ArenaId id : storages) {
      if (is_stop_due() || state.work() >= work_end) return state.fits();
      Gap gap{id, 0, state.touches().first_from(id, 0)};
      for (;;) {
        gap.begin = gap.end;
        gap.end = state.touches().first_from(id, gap.begin + 1);
        if (gap.end == Touches::kNoneBehind) break;
        if (!state.is_retained(id, gap.end)) continue;
        const double price = price_of(state, gap, overflow);
        if (price < kNever) queue.push({price, gap});
      }
    }
    bool is_changed = false;
    while (!queue.empty() && !state.fits() && state.work() < work_end && !is_stop_due()) {
      const Item top = queue.top();
      queue.pop();
      if (!is_retained_gap(state, top.gap)) continue;
      // Prices mostly rise as the overflow shrinks: look again before it is taken.
      const double price = price_of(state, top.gap, overflow);
      if (price == kNever) continue;
      if (!queue.empty() && price > queue.top().price * (1 + 1e-6)) {
        queue.push({price, top.gap});
        continue;
      }
      if (drop(state, top.gap)) {
        state.commit();
        overflow = state.overflow();
        is_changed = true;
      } else {
        state.roll_back();
      }
    }
    if (!is_changed) break;
  }
  return state.fits();
}

bool clear_peaks(const StageGraph& graph, Retention& state, const std::vector<ArenaId>& storages) {
  // At the second visit also what the stage itself reads: it is made again late in the stage.
  IndexVector<int32_t> visits(static_cast<size_t>(graph.op_count) + 1, 0);
  while (!state.fits()) {
    const int32_t worst = state.worst_stage();
    if (++visits[worst] > 2) return false;
    for (const ArenaId id : storages) {
      if (is_stop_due()) return state.fits();
      if (!state.is_retained(id, worst)) continue;
      Gap gap = gap_through(state, id, worst);
      if (gap.storage == kNone && visits[worst] == 2)
        gap = gap_through(state, id, worst, /*may_end_there=*/true);
      if (gap.storage == kNone) continue;
      const int64_t peak = state.peak(worst);
      const bool is_inside = gap.end > worst;
      if (drop(state, gap) && (is_inside || state.peak(worst) < peak)) {
        state.commit();
      } else {
        state.roll_back();
      }
    }
  }
  return true;
}

void fill_room(const StageGraph& graph, Retention& state, const FillLimits& limits) {
  const int64_t begin = state.work();
  struct Run {
    double price;
    int32_t op;
    int32_t stage;
  };
  for (int32_t round = 0; round < 4; ++round) {
    std::vector<Run> repeats;
    for (int32_t stage = 0; stage <= graph.op_count; ++stage) {
      for (const int32_t way : state.runs(stage)) {
        const int32_t op = graph.op_of(way);
        double room = 1;
        for (const ArenaId output : graph.outputs[op]) {
          const int32_t before = state.touches().last_before(output, stage);
          if (before == Touches::kNoneBefore) continue;
          room += static_cast<double>(graph.bytes[output]) * (stage - before);
        }
        repeats.push_back({graph.cost[way] / room, op, stage});
      }
    }
    std::stable_sort(repeats.begin(), repeats.end(),
                     [](const Run& a, const Run& b) { return a.price > b.price; });
    bool is_changed = false;
    for (const Run& repeat : repeats) {
      if (is_stop_due() || state.work() - begin >= limits.work) return;
      if (!state.runs_again(repeat.op, repeat.stage)) continue;
      if (!may_keep_outputs(graph, state, repeat.op, repeat.stage)) continue;
      const double cost = state.extra_cost();
      if (keep_outputs(graph, state, repeat.op, repeat.stage) && state.fits() &&
          state.extra_cost() < cost && state.extra_cost() >= limits.least_cost) {
        state.commit();
        is_changed = true;
        limits.on_step();
      } else {
        state.roll_back();
      }
    }
    if (!is_changed) break;
  }
}

}  // namespace snug::plan
