// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/index.h"

#include <algorithm>

#include "base/check.h"
#include "base/id_vector.h"
#include "base/stop.h"
#include "plan/problem/joint.h"

namespace snug::plan {

ProblemIndex::ProblemIndex(const Problem& problem_in)
    : problem(problem_in),
      producer(problem.storages.size(), kNone),
      consumers(problem.storages.size()),
      runs_once(problem.ops.size(), false),
      in_keep(problem.storages.size(), false),
      versions(problem.ops.size()) {
  SNUG_CHECK(is_plain(problem), "a joint graph is solved as a plain problem");
  IdVector<StorageId, bool> is_written(problem.storages.size(), false);
  for (const Op& each : problem.ops) {
    for (const StorageId id : each.outputs) {
      if (storage(id).resident) is_written[id] = true;
    }
  }
  IdVector<StorageId, int32_t> writes(problem.storages.size(), 0);
  backward_begin = end_op();
  for (const OpId id : op_ids()) {
    stop_point();
    const Op& each = op(id);
    runs_once[id] = !each.may_recompute;
    const auto see_version = [&](StorageId seen) {
      auto& list = versions[id];
      const std::pair entry{seen, writes[seen]};
      if (std::find(list.begin(), list.end(), entry) == list.end()) list.push_back(entry);
    };
    for (const StorageId input : each.inputs) {
      consumers[input].push_back(id);
      if (is_written[input]) see_version(input);
    }
    for (const StorageId output : each.outputs) {
      if (storage(output).resident) {
        runs_once[id] = true;
        see_version(output);
      } else {
        producer[output] = id;
      }
    }
    for (const StorageId output : each.outputs) {
      if (storage(output).resident) ++writes[output];
    }
    if (backward_begin == end_op() &&
        (each.phase == Phase::backward || each.phase == Phase::update)) {
      backward_begin = id;
    }
  }
  for (const StorageId id : problem.keep) in_keep[id] = true;
}

}  // namespace snug::plan
