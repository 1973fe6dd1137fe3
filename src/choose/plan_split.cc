// SPDX-License-Identifier: Apache-2.0
#include "choose/plan_split.h"

#include "choose/saved_plan.h"

namespace snug::choose {

plan::FrontierOptions frontier_options(const RunPlanRequest& request) {
  plan::FrontierOptions options = plan::kQuickFrontier;
  options.searches_graphs = request.startup_bytes == 0;
  return options;
}

void plan_split(const RunPlanRequest& request, const BatchSplit* model, BatchSplit& split,
                const plan::ShareSink& on_share) {
  const plan::Problem& problem = split.problem();
  const plan::FrontierOptions options = frontier_options(request);
  const std::string strategy = request.trains ? request.strategy : "keep-all";
  if (request.saved != nullptr) {
    split.frontier.emplace(problem, request.saved->at(request.trains ? "train" : "eval",
                                                      request.lengths.back(), problem));
  } else if (!strategy.empty()) {
    split.frontier.emplace(problem, plan::plan_strategy(problem, strategy));
  } else if (model != nullptr && model->form.packed != split.form.packed) {
    split.frontier =
        plan::build_frontier_beside(problem, model->problem(), *model->frontier, options, on_share);
  } else if (model != nullptr) {
    split.frontier =
        plan::build_frontier_like(problem, model->problem(), *model->frontier, options, on_share);
  } else {
    split.frontier = plan::build_frontier(problem, options, on_share);
  }
}

}  // namespace snug::choose
