// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/brute_force.h"

#include <functional>
#include <map>
#include <queue>

namespace snug::plan::testing {
namespace {

using Mask = uint32_t;
using State = std::pair<Mask, Mask>;  // storages in memory, ops that have run

}  // namespace

std::optional<double> fewest_seconds(const Problem& problem, int64_t budget_bytes) {
  const auto bit = [](auto id) { return Mask{1} << id.number(); };
  const auto bytes_of = [&](Mask storages) {
    int64_t bytes = 0;
    for (const StorageId id : problem.storages.ids()) {
      if ((storages & bit(id)) != 0) bytes += problem.storages[id].bytes;
    }
    return bytes;
  };
  struct Needs {
    Mask inputs = 0;
    Mask outputs = 0;
  };
  IdVector<OpId, Needs> needs(problem.ops.size());
  for (const OpId op : problem.ops.ids()) {
    for (const StorageId id : problem.ops[op].inputs) {
      if (!problem.storages[id].resident) needs[op].inputs |= bit(id);
    }
    for (const StorageId id : problem.ops[op].outputs) needs[op].outputs |= bit(id);
  }
  Mask kept = 0;
  for (const StorageId id : problem.keep) kept |= bit(id);
  const Mask all_ops = bit(problem.ops.end_id()) - 1;

  // Dijkstra; dropping a storage costs nothing.
  std::map<State, double> best;
  std::priority_queue<std::pair<double, State>, std::vector<std::pair<double, State>>,
                      std::greater<>>
      queue;
  const auto reach = [&](const State& state, double seconds) {
    const auto [found, is_new] = best.emplace(state, seconds);
    if (!is_new && found->second <= seconds) return;
    found->second = seconds;
    queue.emplace(seconds, state);
  };
  reach({0, 0}, 0);
  while (!queue.empty()) {
    const auto [seconds, state] = queue.top();
    queue.pop();
    if (best[state] < seconds) continue;
    const auto [memory, ran] = state;
    if (ran == all_ops && (memory & kept) == kept) return seconds;
    for (const StorageId id : problem.storages.ids()) {
      if ((memory & bit(id)) != 0) reach({memory & ~bit(id), ran}, seconds);
    }
    for (const OpId op : problem.ops.ids()) {
      const bool has_run = (ran & bit(op)) != 0;
      if (has_run && !problem.ops[op].may_recompute) continue;
      if ((needs[op].inputs & ~memory) != 0) continue;
      const Mask after = memory | needs[op].outputs;
      if (bytes_of(after) + problem.ops[op].scratch_bytes > budget_bytes) continue;
      reach({after, ran | bit(op)}, seconds + problem.ops[op].seconds);
    }
  }
  return std::nullopt;
}

int64_t smallest_load(const Problem& problem) {
  int64_t budget = 0;
  while (!fewest_seconds(problem, budget)) budget += problem.alignment;
  return budget;
}

}  // namespace snug::plan::testing
