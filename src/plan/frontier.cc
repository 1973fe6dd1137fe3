// SPDX-License-Identifier: Apache-2.0
#include "plan/frontier.h"

#include <algorithm>

#include "plan/assemble.h"
#include "plan/bound.h"
#include "plan/liveness.h"
#include "plan/validate.h"
#include "snug/error.h"

namespace snug::plan {

Frontier build_frontier(const Problem& problem, const FrontierOptions& options) {
  validate(problem);
  Frontier frontier;
  frontier.bound = working_set_bound(problem);
  frontier.plans.push_back(assemble(problem, given_order(problem), "keep-all", options.placement));
  frontier.keep_all_arena_bytes = frontier.plans.front().arena_bytes;
  frontier.keep_all_seconds = frontier.plans.front().seconds;
  return frontier;
}

Plan plan_strategy(const Problem& problem, std::string_view strategy, const FrontierOptions& options) {
  validate(problem);
  if (strategy == "keep-all") return assemble(problem, given_order(problem), "keep-all", options.placement);
  throw Error(ErrorCode::bad_config, "recompute", "'" + std::string(strategy) + "' is not a strategy",
              "use keep-all, recompute-all, sqrt or every:K");
}

const Plan* fastest_within(const Frontier& frontier, int64_t arena_budget_bytes) {
  const Plan* best = nullptr;
  for (const Plan& plan : frontier.plans) {
    if (plan.arena_bytes > arena_budget_bytes) continue;
    if (best == nullptr || plan.seconds < best->seconds) best = &plan;
  }
  return best;
}

Refusal refuse(const Problem& problem, const Frontier& frontier, int64_t arena_budget_bytes) {
  Refusal refusal;
  refusal.budget_bytes = arena_budget_bytes;
  refusal.bound = frontier.bound;
  refusal.is_proved = arena_budget_bytes < frontier.bound.bytes;
  if (!frontier.plans.empty()) refusal.smallest_arena_bytes = frontier.plans.front().arena_bytes;
  refusal.gap_bytes = refusal.smallest_arena_bytes - frontier.bound.bytes;
  if (frontier.bound.op < 0) return refusal;
  const Op& op = problem.ops[static_cast<size_t>(frontier.bound.op)];
  refusal.op_name = op.name;
  for (const auto* operands : {&op.inputs, &op.outputs}) {
    for (const StorageId id : *operands) {
      const Storage& storage = problem.storages[static_cast<size_t>(id)];
      if (!storage.resident) refusal.operands.push_back({storage.name, storage.bytes});
    }
  }
  if (op.scratch_bytes > 0) refusal.operands.push_back({"scratch", op.scratch_bytes});
  std::stable_sort(refusal.operands.begin(), refusal.operands.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return refusal;
}

}  // namespace snug::plan
