// SPDX-License-Identifier: Apache-2.0
#include "plan/bound.h"

namespace snug::plan {

WorkingSetBound working_set_bound(const Problem& problem) {
  WorkingSetBound bound;
  for (size_t i = 0; i < problem.ops.size(); ++i) {
    const Op& op = problem.ops[i];
    int64_t bytes = op.scratch_bytes;
    for (const auto* operands : {&op.inputs, &op.outputs}) {
      for (const StorageId id : *operands) {
        const Storage& storage = problem.storages[static_cast<size_t>(id)];
        if (!storage.resident) bytes += storage.bytes;
      }
    }
    if (bound.op < 0 || bytes > bound.bytes) bound = {bytes, static_cast<OpId>(i)};
  }
  return bound;
}

double lower_bound_seconds(const Problem& problem, int64_t arena_budget_bytes) {
  double seconds = 0;
  for (const Op& op : problem.ops) seconds += op.seconds;
  (void)arena_budget_bytes;
  return seconds;
}

}  // namespace snug::plan
