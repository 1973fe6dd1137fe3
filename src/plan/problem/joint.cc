// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/joint.h"

#include <algorithm>

namespace snug::plan {

bool is_plain(const Problem& problem) {
  const auto is_view = [](const Storage& storage) { return storage.view_of != kNone; };
  const auto is_bound = [](const Op& op) { return op.is_ordered || op.part != GraphPart::any; };
  return !problem.boundary &&
         std::none_of(problem.storages.begin(), problem.storages.end(), is_view) &&
         std::none_of(problem.ops.begin(), problem.ops.end(), is_bound);
}

bool makes_only_views(const Problem& problem, const Op& op) {
  return !op.outputs.empty() &&
         std::all_of(op.outputs.begin(), op.outputs.end(),
                     [&](StorageId id) { return problem.storages[id].view_of != kNone; });
}

OpId first_behind_boundary(const Problem& problem) {
  for (const OpId id : problem.ops.ids()) {
    const Phase phase = problem.ops[id].phase;
    if (phase == Phase::backward || phase == Phase::update) return id;
  }
  return problem.ops.end_id();
}

}  // namespace snug::plan
