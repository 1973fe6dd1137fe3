// SPDX-License-Identifier: Apache-2.0
#include "choose/plain_program.h"

#include <utility>

#include "choose/saved_plan.h"
#include "plan/frontier/frontier.h"

namespace snug::choose {

const SavedPlan* saved_plan_of(const RunPlanRequest& request, const SplitForm& form) {
  const bool is_other =
      request.saved != nullptr && request.saved->packs_weights && form.packed.empty();
  return is_other ? nullptr : request.saved;
}

PlannedProgram plain_program(const RunPlanRequest& request, const SavedPlan* saved,
                             const std::string& kind, Graph graph, const Lengths& length,
                             const Backend& backend, const plan::FrontierOptions& options) {
  PlannedProgram program{.length = length, .graph = std::move(graph), .lowered = {}, .plan = {}};
  program.lowered = compile::lower(program.graph, backend, {.fusion = request.fusion});
  const plan::Problem& problem = program.lowered.problem;
  program.plan = saved != nullptr ? saved->at(kind, length, problem)
                                  : plan::plan_strategy(problem, "keep-all", options);
  return program;
}

}  // namespace snug::choose
