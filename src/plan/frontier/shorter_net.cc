// SPDX-License-Identifier: Apache-2.0
#include "plan/frontier/shorter_net.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "base/id_vector.h"
#include "base/index_vector.h"
#include "base/stop.h"
#include "plan/problem/index.h"

namespace snug::plan {
namespace {

using Kind = std::tuple<std::string, std::string, Phase>;  // scope, name, phase

std::map<Kind, std::vector<OpId>> by_kind(const Problem& problem) {
  std::map<Kind, std::vector<OpId>> kinds;
  for (const OpId id : problem.ops.ids()) {
    const Op& op = problem.ops[id];
    kinds[{op.scope, op.name, op.phase}].push_back(id);
  }
  return kinds;
}

// By op of the whole: its partner in the part.
IdVector<OpId, OpId> partners(const Problem& part, const Problem& whole) {
  IdVector<OpId, OpId> result(whole.ops.size());
  const std::map<Kind, std::vector<OpId>> wanted = by_kind(part);
  for (const auto& [kind, ops] : by_kind(whole)) {
    const auto found = wanted.find(kind);
    if (found == wanted.end() || found->second.size() != ops.size()) continue;
    for (size_t i = 0; i < ops.size(); ++i) result[ops[i]] = found->second[i];
  }
  return result;
}

class Follower {
 public:
  Follower(const ProblemIndex& index, IdVector<OpId, bool> has_partner)
      : index_(index),
        has_partner_(std::move(has_partner)),
        has_run_(static_cast<size_t>(index.op_count()), false),
        writes_(static_cast<size_t>(index.storage_count()), 0) {}

  // Then also what has no partner and waited for this. False where the op cannot run here.
  bool run(OpId op) {
    if (has_run_[op] && index_.runs_once[op]) return false;
    if (!has_inputs(op)) return false;
    for (const auto& [id, writes] : index_.versions[op]) {
      if (writes_[id] != writes) return false;
    }
    for (const StorageId output : index_.op(op).outputs) {
      if (index_.storage(output).resident) ++writes_[output];
    }
    has_run_[op] = true;
    schedule_.push_back(op);
    for (const StorageId output : index_.op(op).outputs) {
      for (const OpId next : index_.consumers[output]) {
        if (!has_partner_[next] && !has_run_[next] && has_inputs(next) && !run(next)) return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool has_run(OpId op) const { return has_run_[op]; }
  [[nodiscard]] std::vector<OpId>& schedule() { return schedule_; }

 private:
  [[nodiscard]] bool has_inputs(OpId op) const {
    const auto& inputs = index_.op(op).inputs;
    return std::all_of(inputs.begin(), inputs.end(), [this](StorageId input) {
      const OpId producer = index_.producer[input];
      return producer == kNone || has_run_[producer];
    });
  }

  const ProblemIndex& index_;
  IdVector<OpId, bool> has_partner_;
  IdVector<OpId, bool> has_run_;
  IdVector<StorageId, int32_t> writes_;
  std::vector<OpId> schedule_;
};

// Without the runs whose results nobody reads before they are made again: in the whole they led to
// steps that the part does not have. Backwards, since a run that goes takes others with it.
std::vector<OpId> without_idle_runs(const ProblemIndex& index, const std::vector<OpId>& schedule) {
  IdVector<OpId, int32_t> runs(index.op_count(), 0);
  for (const OpId op : schedule) ++runs[op];
  IdVector<StorageId, bool> is_wanted = index.in_keep;
  std::vector<OpId> kept;
  for (size_t i = schedule.size(); i-- > 0;) {
    const OpId op = schedule[i];
    const auto& outputs = index.op(op).outputs;
    const bool is_used = std::any_of(outputs.begin(), outputs.end(), [&](StorageId id) {
      return index.storage(id).resident || is_wanted[id];
    });
    if (!is_used && runs[op] > 1) {
      --runs[op];
      continue;
    }
    kept.push_back(op);
    for (const StorageId output : outputs) is_wanted[output] = false;
    for (const StorageId input : index.op(op).inputs) is_wanted[input] = true;
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

}  // namespace

std::optional<std::vector<OpId>> schedule_of_part(const Problem& part, const Problem& whole,
                                                  IndexSpan<const OpId> schedule) {
  const ProblemIndex index(part);
  const IdVector<OpId, OpId> partner = partners(part, whole);
  IdVector<OpId, bool> has_partner(part.ops.size(), false);
  for (const OpId op : partner) {
    if (op != kNone) has_partner[op] = true;
  }
  Follower follower(index, std::move(has_partner));
  for (const OpId op : schedule) {
    stop_point();
    const OpId mine = partner[op];
    if (mine != kNone && !follower.run(mine)) return std::nullopt;
  }
  for (const OpId op : index.op_ids()) {
    if (!follower.has_run(op) && !follower.run(op)) return std::nullopt;
  }
  return without_idle_runs(index, follower.schedule());
}

void take_scratch_of_part(const Problem& part, Problem& whole) {
  const IdVector<OpId, OpId> partner = partners(part, whole);
  for (const OpId id : whole.ops.ids()) {
    if (partner[id] == kNone) continue;
    const Op& shorter = part.ops[partner[id]];
    whole.ops[id].scratch_bytes = std::max(whole.ops[id].scratch_bytes, shorter.scratch_bytes);
  }
}

}  // namespace snug::plan
