// SPDX-License-Identifier: Apache-2.0
#include "plan/graphs/small_exact.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <unordered_map>

#include "base/id_vector.h"
#include "base/index_vector.h"

namespace snug::plan {
namespace {

using Mask = uint64_t;

struct State {
  Mask memory = 0;
  Mask ran = 0;
  bool operator==(const State&) const = default;
};

struct StateHash {
  size_t operator()(const State& state) const {
    uint64_t hash =
        state.memory * 0x9E3779B97F4A7C15ull ^ (state.ran + 0x7F4A7C15ull) * 0xBF58476D1CE4E5B9ull;
    hash ^= hash >> 29;
    return static_cast<size_t>(hash * 0x94D049BB133111EBull);
  }
};

struct Visit {
  double cost = 0;
  State from;
  OpId op;  // none: a drop, or the start
  bool is_done = false;
};

class SmallSearch {
 public:
  SmallSearch(const ProblemIndex& index, int64_t budget_bytes, bool may_reorder)
      : index_(index), budget_bytes_(budget_bytes), may_reorder_(may_reorder) {
    bit_of_.assign(index.storage_count(), 0);
    for (const StorageId id : index.storage_ids()) {
      if (index.storage(id).resident) continue;
      bit_of_[id] = Mask{1} << bytes_.size();
      bytes_.push_back(index.storage(id).bytes);
    }
    for (const OpId id : index.op_ids()) {
      const Op& op = index.op(id);
      OpMasks masks;
      masks.ways.push_back(way(id, op));
      for (const StorageId output : op.outputs) masks.outputs |= bit_of_[output];
      for (const auto& [output, input] : op.reuses) {
        masks.gone |= bit_of_[input];
        masks.ways.front().fixed_bytes -=
            std::min(index.storage(output).bytes, index.storage(input).bytes);
      }
      masks_.push_back(masks);
      for (const auto& [resident, writes] : index.versions[id]) {
        // Writers of the version it sees have run, later ones have not.
        int32_t seen = 0;
        for (const OpId writer : index.op_ids()) {
          const auto& outputs = index.op(writer).outputs;
          if (std::find(outputs.begin(), outputs.end(), resident) == outputs.end()) continue;
          if (writer != id)
            (seen < writes ? masks_.back().after : masks_.back().before) |= bit(writer);
          ++seen;
        }
      }
    }
    for (const OpId id : index.problem.variant_ids())
      masks_[index.problem.op_of(id)].ways.push_back(way(id, index.problem.run(id)));
    for (const StorageId id : index.problem.keep) kept_ |= bit_of_[id];
  }

  ExactAnswer run(int64_t max_states) {
    const Mask all_ops = (Mask{1} << index_.op_count()) - 1;
    reach({0, 0}, {});
    while (!queue_.empty()) {
      const State state = queue_.top().second;
      queue_.pop();
      Visit& visit = visits_[state];
      if (visit.is_done) continue;
      visit.is_done = true;
      const double cost = visit.cost;
      if (state.ran == all_ops && (state.memory & kept_) == kept_) return {true, path_to(state)};
      if (static_cast<int64_t>(visits_.size()) > max_states) return {};
      expand(state, cost);
    }
    return {true, std::nullopt};
  }

 private:
  struct Way {  // the op itself or a variant
    OpId id;
    Mask inputs = 0;
    int64_t fixed_bytes = 0;
    double seconds = 0;
  };
  struct OpMasks {
    std::vector<Way> ways;
    Mask outputs = 0;
    Mask gone = 0;    // inputs that are overwritten
    Mask after = 0;   // ops that must have run
    Mask before = 0;  // ops that must not have run
  };

  [[nodiscard]] Way way(OpId id, const Op& op) const {
    Way made{id, 0, op.scratch_bytes, op.seconds};
    for (const StorageId input : op.inputs) made.inputs |= bit_of_[input];
    return made;
  }

  static Mask bit(OpId op) { return Mask{1} << op.number(); }
  [[nodiscard]] int64_t bytes_of(Mask storages) const {
    int64_t bytes = 0;
    for (; storages != 0; storages &= storages - 1) bytes += bytes_[__builtin_ctzll(storages)];
    return bytes;
  }
  // What every completion still costs: one run of each op that has not run.
  [[nodiscard]] double rest(Mask ran) const {
    double cost = 0;
    for (const OpId id : index_.op_ids()) {
      if ((ran & bit(id)) == 0) cost += index_.op(id).seconds;
    }
    return cost;
  }
  // Whether anything that can still happen reads it.
  [[nodiscard]] Mask useful(Mask ran) const {
    Mask wanted = kept_;
    for (const OpId id : index_.op_ids()) {
      if ((ran & bit(id)) != 0 && index_.runs_once[id]) continue;
      for (const Way& each : masks_[id].ways) wanted |= each.inputs;
    }
    return wanted;
  }

  void reach(State state, Visit visit) {
    state.memory &= useful(state.ran);
    const auto [found, is_new] = visits_.try_emplace(state, visit);
    if (!is_new) {
      if (found->second.is_done || found->second.cost <= visit.cost) return;
      found->second = visit;
    }
    queue_.push({visit.cost + rest(state.ran), state});
  }

  void expand(const State& state, double cost) {
    bool is_short = false;  // of room, for something that could run
    for (const OpId id : index_.op_ids()) {
      const OpMasks& op = masks_[id];
      const bool has_run = (state.ran & bit(id)) != 0;
      if (has_run && index_.runs_once[id]) continue;
      if (has_run && (op.outputs & ~state.memory) == 0) continue;
      if (!has_run && !may_reorder_ && state.ran + 1 != bit(id)) continue;
      if ((op.after & ~state.ran) != 0 || (op.before & state.ran) != 0) continue;
      const Mask after = state.memory | op.outputs;
      const int64_t after_bytes = bytes_of(after);
      for (const Way& each : op.ways) {
        if ((each.inputs & ~state.memory) != 0) continue;
        if (after_bytes + each.fixed_bytes > budget_bytes_) {
          is_short = true;
          continue;
        }
        reach({after & ~op.gone, state.ran | bit(id)},
              {cost + each.seconds, state, each.id, false});
      }
    }
    if (!is_short) return;
    for (Mask left = state.memory; left != 0; left &= left - 1) {
      const Mask one = left & (~left + 1);
      if (bytes_of(one) == 0) continue;
      reach({state.memory & ~one, state.ran}, {cost, state, kNone, false});
    }
  }

  std::vector<OpId> path_to(State state) {
    std::vector<OpId> path;
    while (state.ran != 0) {
      const Visit& visit = visits_[state];
      if (visit.op != kNone) path.push_back(visit.op);
      state = visit.from;
    }
    std::reverse(path.begin(), path.end());
    return path;
  }

  const ProblemIndex& index_;
  int64_t budget_bytes_;
  bool may_reorder_;
  IdVector<StorageId, Mask> bit_of_;
  IndexVector<int64_t> bytes_;
  IdVector<OpId, OpMasks> masks_;
  Mask kept_ = 0;
  std::unordered_map<State, Visit, StateHash> visits_;
  struct IsLater {
    bool operator()(const std::pair<double, State>& a, const std::pair<double, State>& b) const {
      return std::tie(a.first, a.second.ran, a.second.memory) >
             std::tie(b.first, b.second.ran, b.second.memory);
    }
  };
  std::priority_queue<std::pair<double, State>, std::vector<std::pair<double, State>>, IsLater>
      queue_;
};

}  // namespace

ExactAnswer cheapest_schedule(const ProblemIndex& index, int64_t budget_bytes, bool may_reorder,
                              int64_t max_states) {
  int32_t arena_storages = 0;
  for (const Storage& each : index.problem.storages) arena_storages += each.resident ? 0 : 1;
  if (index.op_count() > kMostExactOps || arena_storages > 64) return {};
  return SmallSearch(index, budget_bytes, may_reorder).run(max_states);
}

}  // namespace snug::plan
