// SPDX-License-Identifier: Apache-2.0
#include "plan/graphs/reorder.h"

#include <algorithm>
#include <set>

#include "base/id_vector.h"
#include "base/index_vector.h"
#include "base/stop.h"
#include "plan/problem/liveness.h"

namespace snug::plan {
namespace {

// Which op must run before which: makers before readers, every access to a written resident storage
// on the same side of its writers, readers before the op that overwrites.
IdVector<OpId, std::vector<OpId>> successors_of(const ProblemIndex& index) {
  IdVector<OpId, std::set<OpId>> successors(index.op_count());
  IdVector<StorageId, OpId> last_writer(index.storage_count());
  IdVector<StorageId, std::vector<OpId>> readers(index.storage_count());
  for (const OpId id : index.op_ids()) {
    const Op& op = index.op(id);
    const auto after = [&](OpId before) {
      if (before != kNone && before != id) successors[before].insert(id);
    };
    for (const StorageId input : op.inputs) {
      after(index.storage(input).resident ? last_writer[input] : index.producer[input]);
      readers[input].push_back(id);
    }
    for (const StorageId output : op.outputs) {
      if (!index.storage(output).resident) continue;
      after(last_writer[output]);
      for (const OpId reader : readers[output]) after(reader);
      last_writer[output] = id;
      readers[output].clear();
    }
    for (const auto& [output, input] : op.reuses) {
      for (const OpId reader : readers[input]) after(reader);
    }
  }
  IdVector<OpId, std::vector<OpId>> lists;
  for (const auto& each : successors) lists.emplace_back(each.begin(), each.end());
  return lists;
}

struct Score {
  int64_t load_bytes = 0;
  double sum = 0;
  bool operator<(const Score& other) const {
    return load_bytes != other.load_bytes ? load_bytes < other.load_bytes
                                          : sum < other.sum * (1 - 1e-12);
  }
};

Score score_of(const Problem& problem, const IndexVector<OpId>& order) {
  const Liveness live = analyse(problem, order);
  Score score{live.load_bytes, 0};
  for (const int64_t bytes : live.step_bytes) score.sum += static_cast<double>(bytes);
  return score;
}

}  // namespace

std::vector<OpId> lower_peak_order(const ProblemIndex& index) {
  constexpr int64_t kMaxOperandsRead = 200'000'000;  // each trial replays the order
  constexpr int32_t kMaxRounds = 4;
  IndexVector<OpId> order = given_order(index.problem);
  const auto successors = successors_of(index);
  IdVector<OpId, std::vector<OpId>> predecessors(successors.size());
  for (const OpId id : index.op_ids()) {
    for (const OpId next : successors[id]) predecessors[next].push_back(id);
  }
  Score best = score_of(index.problem, order);
  IdVector<OpId, size_t> position(order.size());
  int64_t trials = kMaxOperandsRead / (static_cast<int64_t>(order.size()) * 4 + 1);
  for (int32_t round = 0; round < kMaxRounds; ++round) {
    bool is_changed = false;
    for (const OpId id : index.op_ids()) {
      for (size_t i = 0; i < order.size(); ++i) position[order[i]] = i;
      const size_t here = position[id];
      size_t first = 0;
      size_t last = order.size() - 1;
      for (const OpId each : predecessors[id]) first = std::max(first, position[each] + 1);
      for (const OpId each : successors[id]) last = std::min(last, position[each] - 1);
      for (const size_t there : {first, last}) {
        if (there == here || --trials < 0) continue;
        stop_point();
        IndexVector<OpId> trial = order;
        const auto begin = trial.begin();
        const auto from = static_cast<std::ptrdiff_t>(here);
        const auto to = static_cast<std::ptrdiff_t>(there);
        if (from < to) {
          std::rotate(begin + from, begin + from + 1, begin + to + 1);
        } else {
          std::rotate(begin + to, begin + from, begin + from + 1);
        }
        const Score score = score_of(index.problem, trial);
        if (!(score < best)) continue;
        best = score;
        order = std::move(trial);
        is_changed = true;
        break;
      }
    }
    if (!is_changed) break;
  }
  return order;
}

}  // namespace snug::plan
