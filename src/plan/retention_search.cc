// SPDX-License-Identifier: Apache-2.0
#include "plan/retention_search.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <queue>

#include "plan/retention.h"

namespace snug::plan {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 0x1234567ull) {}
  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ull;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  int32_t below(int32_t limit) {
    return static_cast<int32_t>((next() >> 32) * static_cast<uint64_t>(limit) >> 32);
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

struct Gap {
  int32_t storage;
  int32_t begin;  // touch stage before
  int32_t end;    // touch stage after
};

class Search {
 public:
  Search(const StageGraph& graph, int64_t limit, uint64_t seed)
      : graph_(graph), state_(graph, limit), random_(seed) {
    double sum = 0;
    int32_t count = 0;
    for (int32_t id = 0; id < graph.storage_count; ++id) {
      const auto op = static_cast<size_t>(graph.producer[static_cast<size_t>(id)]);
      if (graph.bytes[static_cast<size_t>(id)] == 0) continue;
      if (graph.last_stage[op] <= graph.producer[static_cast<size_t>(id)] || graph.readers[id].empty()) continue;
      active_.push_back(id);
      if (graph.cost[op] > 0) sum += graph.cost[op], ++count;
    }
    mean_cost_ = count > 0 ? sum / count : 1;
  }

  bool greedy() {
    struct Item {
      double price;
      Gap gap;
      bool operator<(const Item& other) const { return price > other.price; }
    };
    for (int32_t round = 0; round < 50 && !state_.fits(); ++round) {
      std::priority_queue<Item> queue;
      for (const int32_t id : active_) {
        const auto touches = state_.touches(id);
        for (size_t i = 0; i + 1 < touches.size(); ++i) {
          const Gap gap{id, touches[i].stage, touches[i + 1].stage};
          if (!state_.is_retained(id, gap.end) || gap.end - gap.begin < 2) continue;
          const double price = price_of(gap);
          if (price < 1e300) queue.push({price, gap});
        }
      }
      bool changed = false;
      while (!queue.empty() && !state_.fits()) {
        const Item top = queue.top();
        queue.pop();
        if (!is_gap(top.gap)) continue;
        const double price = price_of(top.gap);
        if (price >= 1e300) continue;
        if (!queue.empty() && price > queue.top().price * 1.000001) {
          queue.push({price, top.gap});
          continue;
        }
        if (drop(top.gap)) state_.commit(), changed = true;
        else state_.roll_back();
      }
      if (!changed) break;
    }
    return state_.fits();
  }

  void anneal(int64_t moves, double hot, double cold) {
    if (active_.empty()) return;
    best_ = state_.snapshot();
    if (getenv("RESTART") && start_.bits.empty()) start_ = best_;
    if (getenv("RESTART")) state_.restore(start_);
    double temperature = hot * mean_cost_;
    const double factor = std::pow(cold / hot, 1.0 / static_cast<double>(std::max<int64_t>(1, moves)));
    int64_t last_save = 0;
    for (int64_t move = 0; move < moves; ++move, temperature *= factor) {
      if (getenv("TRACE") && move % (moves / 20) == 0) printf("    T %.4f cost %.4f best %.4f peak %.4g\n", temperature, state_.extra_cost(), best_.extra_cost, (double)state_.peak());
      const double before = state_.extra_cost();
      const bool ok = propose();
      if (!ok || !state_.fits()) {
        state_.roll_back();
        continue;
      }
      const double change = state_.extra_cost() - before;
      if (change > 0 && random_.unit() >= std::exp(-change / temperature)) {
        state_.roll_back();
        continue;
      }
      state_.commit();
      if (state_.extra_cost() < best_.extra_cost - 1e-9 && move - last_save > moves / 200) {
        best_ = state_.snapshot();
        last_save = move;
      }
    }
    if (state_.extra_cost() < best_.extra_cost) best_ = state_.snapshot();
    else if (!getenv("TRACE")) state_.restore(best_);
  }

  // Drops all that is live but unused at the worst stage, stage after stage.
  bool clear_peaks() {
    std::vector<bool> is_done(static_cast<size_t>(graph_.op_count) + 1, false);
    while (!state_.fits()) {
      const int32_t worst = state_.worst_stage();
      if (is_done[static_cast<size_t>(worst)]) return false;
      is_done[static_cast<size_t>(worst)] = true;
      for (const int32_t id : active_) {
        if (!state_.is_retained(id, worst)) continue;
        const Gap gap = gap_through(id, worst);
        if (gap.storage < 0) continue;
        if (drop(gap)) state_.commit();
        else state_.roll_back();
      }
    }
    return true;
  }

  // Takes out repeated runs while there is room, most cost per byte and stage first.
  void fill() {
    struct Item {
      double price;
      int32_t op;
      int32_t stage;
    };
    for (int32_t round = 0; round < 4; ++round) {
      std::vector<Item> items;
      for (int32_t stage = 0; stage <= graph_.op_count; ++stage) {
        for (const int32_t op : state_.runs(stage)) {
          double room = 1;
          for (const int32_t output : graph_.outputs[op]) {
            const auto touches = state_.touches(output);
            const auto found = std::lower_bound(touches.begin(), touches.end(), stage,
                                                [](const Retention::Touch& a, int32_t t) { return a.stage < t; });
            if (found == touches.begin() || found == touches.end() || found->stage != stage) continue;
            room += static_cast<double>(graph_.bytes[static_cast<size_t>(output)]) * (stage - std::prev(found)->stage);
          }
          items.push_back({graph_.cost[static_cast<size_t>(op)] / room, op, stage});
        }
      }
      std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.price > b.price; });
      bool changed = false;
      for (const Item& item : items) {
        const auto runs = state_.runs(item.stage);
        if (!std::binary_search(runs.begin(), runs.end(), item.op)) continue;
        const double cost = state_.extra_cost();
        if (keep_outputs(item.op, item.stage) && state_.fits() && state_.extra_cost() < cost) {
          state_.commit();
          changed = true;
        } else {
          state_.roll_back();
        }
      }
      if (!changed) break;
    }
  }

  // Overflow is allowed at a price that grows.
  bool anneal_soft(int64_t moves, double hot, double cold, double lo, double hi) {
    if (active_.empty()) return state_.fits();
    double mean_bytes = 0;
    for (const int32_t id : active_) mean_bytes += static_cast<double>(graph_.bytes[static_cast<size_t>(id)]);
    mean_bytes /= static_cast<double>(active_.size());
    const double n = static_cast<double>(std::max<int64_t>(1, moves));
    double temperature = hot * mean_cost_;
    const double cool = std::pow(cold / hot, 1.0 / n);
    double price = lo * mean_cost_ / mean_bytes;
    const double grow = std::pow(hi / lo, 1.0 / n);
    for (int64_t move = 0; move < moves; ++move, temperature *= cool, price *= grow) {
      if (getenv("TRACE") && move % (moves / 20) == 0) printf("    soft T %.4f cost %.4f overflow %.4g peak %.4f\n", temperature, state_.extra_cost(), state_.overflow()/(double)state_.limit_bytes(), (double)state_.peak()/(double)state_.limit_bytes());
      const double cost = state_.extra_cost();
      const double overflow = state_.overflow();
      const bool ok = overflow > 0 && random_.below(2) == 0 ? propose_at_peak() : propose(0);
      if (!ok) {
        state_.roll_back();
        continue;
      }
      const double change = state_.extra_cost() - cost + price * (state_.overflow() - overflow);
      if (change > 0 && random_.unit() >= std::exp(-change / temperature)) {
        state_.roll_back();
        continue;
      }
      state_.commit();
    }
    return state_.fits();
  }

  Retention& state() { return state_; }
  double mean_cost() const { return mean_cost_; }

 private:
  // The gap between two touches of a storage that has the stage inside; storage -1 where none.
  Gap gap_through(int32_t id, int32_t stage) {
    const auto touches = state_.touches(id);
    const auto next = std::lower_bound(touches.begin(), touches.end(), stage,
                                       [](const Retention::Touch& a, int32_t t) { return a.stage < t; });
    if (next == touches.begin() || next == touches.end() || next->stage == stage) return {-1, 0, 0};
    return {id, std::prev(next)->stage, next->stage};
  }
  bool is_gap(const Gap& gap) {
    if (!state_.is_retained(gap.storage, gap.end)) return false;
    const auto touches = state_.touches(gap.storage);
    const auto found = std::lower_bound(touches.begin(), touches.end(), gap.begin,
                                        [](const Retention::Touch& a, int32_t t) { return a.stage < t; });
    return found != touches.end() && found->stage == gap.begin && std::next(found) != touches.end() &&
           std::next(found)->stage == gap.end;
  }
  bool drop(const Gap& gap) { return state_.set(gap.storage, gap.begin + 1, gap.end, false); }
  double price_of(const Gap& gap) {
    const double cost = state_.extra_cost();
    const double overflow = state_.overflow();
    const bool ok = drop(gap);
    const double gain = overflow - state_.overflow();
    const double price = ok && gain > 0 ? (state_.extra_cost() - cost + 1e-9 * mean_cost_) / gain : 1e301;
    state_.roll_back();
    return price;
  }

  // A move on something that is in memory, or made, at the worst stage.
  bool propose_at_peak() {
    const int32_t worst = state_.worst_stage();
    const auto runs = state_.runs(worst);
    if (!runs.empty() && random_.below(3) == 0) {
      const int32_t op = runs[static_cast<size_t>(random_.below(static_cast<int32_t>(runs.size())))];
      const auto outputs = graph_.outputs[op];
      if (outputs.empty()) return false;
      const int32_t id = outputs[static_cast<size_t>(random_.below(static_cast<int32_t>(outputs.size())))];
      const auto touches = state_.touches(id);
      const auto found = std::lower_bound(touches.begin(), touches.end(), worst,
                                          [](const Retention::Touch& a, int32_t t) { return a.stage < t; });
      const int32_t begin = std::prev(found)->stage;
      if (worst - begin < 2 || random_.below(2) == 0) return keep_outputs(op, worst);
      return state_.set(id, begin + 1 + random_.below(worst - begin - 1) + 1, worst, true);
    }
    for (int32_t k = 0; k < 20; ++k) {
      const int32_t id = active_[static_cast<size_t>(random_.below(static_cast<int32_t>(active_.size())))];
      if (!state_.is_retained(id, worst) && (worst >= graph_.op_count || !state_.is_retained(id, worst + 1))) continue;
      const auto touches = state_.touches(id);
      auto next = std::lower_bound(touches.begin(), touches.end(), worst,
                                         [](const Retention::Touch& a, int32_t t) { return a.stage < t; });
      if (next == touches.end()) continue;
      if (next->stage == worst && worst < graph_.op_count && state_.is_retained(id, worst + 1) && random_.below(2) == 0) ++next;
      if (next == touches.begin() || next == touches.end()) continue;
      const int32_t begin = std::prev(next)->stage;
      if (!state_.is_retained(id, next->stage)) continue;
      if (next->stage - begin >= 2 && random_.below(6) == 0)
        return state_.set(id, begin + 1, begin + 1 + random_.below(next->stage - begin - 1), false);
      return state_.set(id, begin + 1, next->stage, false);
    }
    return false;
  }

  bool propose(int32_t ejections = 4) {
    static const double kKeep = getenv("KEEPP") ? atof(getenv("KEEPP")) : 0;
    int32_t id = active_[static_cast<size_t>(random_.below(static_cast<int32_t>(active_.size())))];
    auto touches = state_.touches(id);
    if (touches.size() < 2) return false;
    auto i = static_cast<size_t>(random_.below(static_cast<int32_t>(touches.size()) - 1));
    if (kKeep > 0 && random_.unit() < kKeep) {
      for (int k = 0; k < 30 && state_.is_retained(id, touches[i + 1].stage); ++k) {
        id = active_[static_cast<size_t>(random_.below(static_cast<int32_t>(active_.size())))];
        touches = state_.touches(id);
        i = static_cast<size_t>(random_.below(static_cast<int32_t>(touches.size()) - 1));
      }
    }
    const int32_t begin = touches[i].stage;
    const int32_t end = touches[i + 1].stage;
    const bool is_partial = end - begin >= 2 && random_.below(6) == 0;
    int32_t middle = begin;
    if (is_partial) {
      middle = begin + 1 + random_.below(end - begin - 1);
      // Rather a stage where an input is at hand.
      const auto inputs = graph_.inputs[graph_.producer[static_cast<size_t>(id)]];
      if (!inputs.empty() && random_.below(4) != 0) {
        const auto other = state_.touches(inputs[static_cast<size_t>(random_.below(static_cast<int32_t>(inputs.size())))]);
        const auto first = std::upper_bound(other.begin(), other.end(), begin,
                                            [](int32_t t, const Retention::Touch& a) { return t < a.stage; });
        const auto last = std::lower_bound(first, other.end(), end,
                                           [](const Retention::Touch& a, int32_t t) { return a.stage < t; });
        const auto count = static_cast<int32_t>(last - first);
        if (count > 0) middle = first[random_.below(count)].stage;
      }
    }
    if (state_.is_retained(id, end)) {
      if (is_partial) return state_.set(id, begin + 1, middle, false);
      return state_.set(id, begin + 1, end, false);
    }
    if (!is_partial) return keep_outputs(graph_.producer[static_cast<size_t>(id)], end) && (ejections == 0 || make_room(id));
    if (!state_.set(id, middle + 1, end, true)) return false;
    return ejections == 0 || make_room(id);
  }

  // Makes a repeated run of an op superfluous: what is needed of its outputs stays from before.
  bool keep_outputs(int32_t op, int32_t stage) {
    gaps_.clear();
    for (const int32_t output : graph_.outputs[op]) {
      const auto touches = state_.touches(output);
      const auto found = std::lower_bound(touches.begin(), touches.end(), stage,
                                          [](const Retention::Touch& a, int32_t t) { return a.stage < t; });
      if (found == touches.begin() || found == touches.end() || found->stage != stage) continue;
      const bool is_needed = found->reads > 0 || (stage < graph_.op_count && state_.is_retained(output, stage + 1));
      if (is_needed) gaps_.push_back({output, std::prev(found)->stage, stage});
    }
    // Together: one alone would be trimmed, since the run makes it anyway.
    for (const Gap& gap : gaps_) state_.plan(gap.storage, gap.begin + 1, gap.end, true);
    return state_.settle();
  }

  bool make_room(int32_t keep) {
    for (int32_t tries = 0; !state_.fits(); ++tries) {
      if (tries >= 4) return false;
      const int32_t worst = state_.worst_stage();
      double best = 1e300;
      Gap gap{-1, 0, 0};
      int32_t found = 0;
      for (int32_t k = 0; k < 40 && found < 3; ++k) {
        const int32_t id = active_[static_cast<size_t>(random_.below(static_cast<int32_t>(active_.size())))];
        if (id == keep || !state_.is_retained(id, worst)) continue;
        if (worst >= graph_.op_count || !state_.is_retained(id, worst + 1)) continue;
        const auto touches = state_.touches(id);
        const auto next = std::lower_bound(touches.begin(), touches.end(), worst,
                                           [](const Retention::Touch& a, int32_t t) { return a.stage < t; });
        if (next == touches.begin() || next == touches.end() || next->stage == worst) continue;
        ++found;
        const double price = graph_.cost[static_cast<size_t>(graph_.producer[static_cast<size_t>(id)])] /
                             static_cast<double>(graph_.bytes[static_cast<size_t>(id)]) * (0.5 + random_.unit());
        if (price < best) best = price, gap = {id, std::prev(next)->stage, next->stage};
      }
      if (gap.storage < 0) return false;
      if (!drop(gap)) return false;
    }
    return true;
  }

  const StageGraph& graph_;
  Retention state_;
  Random random_;
  std::vector<int32_t> active_;
  double mean_cost_ = 1;
  Retention::Snapshot best_;
  Retention::Snapshot start_;
  std::vector<Gap> gaps_;
};

}  // namespace

RetentionResult search(const StageGraph& graph, int64_t limit_bytes, const RetentionSearch& limits) {
  RetentionResult result;
  Search search(graph, limit_bytes, limits.seed);
  result.is_feasible = search.greedy();
  result.greedy_extra = search.state().extra_cost();
  result.peak_bytes = search.state().peak();
  result.moves = static_cast<int64_t>(limits.moves_scale * (200000 + 500.0 * graph.op_count));
  const auto env = [](const char* n, double d) { return getenv(n) ? atof(getenv(n)) : d; };
  if (!result.is_feasible && search.clear_peaks()) {
    result.is_feasible = true;
  }
  int64_t smallest = search.state().peak();
  const auto reach = [&](bool found) {
    result.is_feasible = found;
    if (search.state().peak() < smallest) {
      smallest = search.state().peak();
      result.schedule = search.state().schedule();
    }
  };
  if (!result.is_feasible) reach(search.anneal_soft(result.moves, 1.0, 0.02, 0.02, 50));
  if (!result.is_feasible) reach(search.state().drop_all() && search.state().fits());
  if (!result.is_feasible) reach(search.anneal_soft(result.moves, 1.0, 0.02, 0.02, 50));
  if (!result.is_feasible) reach(search.clear_peaks());
  if (!result.is_feasible) {
    result.peak_bytes = smallest;
    return result;
  }
  search.fill();
  result.greedy_extra = search.state().extra_cost();
  const int rounds = (int)env("ROUNDS", 1);
  for (int i = 0; i < rounds; ++i) search.anneal(result.moves / rounds, env("HOT", 1) * (i ? env("REHEAT", 1) : 1), env("COLD", 0.01));
  result.schedule = search.state().schedule();
  result.peak_bytes = search.state().peak();
  return result;
}

}  // namespace snug::plan
