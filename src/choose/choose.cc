// SPDX-License-Identifier: Apache-2.0
#include "choose/choose.h"

#include "base/check.h"
#include "base/units.h"
#include "choose/candidates.h"
#include "choose/chosen_programs.h"
#include "choose/planning_progress.h"
#include "choose/refusal.h"
#include "choose/run_report.h"
#include "choose/split_search.h"

namespace snug::choose {
namespace {

// Where nothing fits and the request takes its smallest plan, the budget becomes what that needs.
PlacedCandidate chosen_among(const std::vector<Candidate>& candidates, const Backend& backend,
                             RunPlanRequest& request) {
  std::optional<PlacedCandidate> chosen = best_within(candidates, request);
  if (!chosen && request.takes_smallest) {
    request.budget_bytes = round_up(smallest_of(candidates, request).peak_bytes, kPageBytes);
    chosen = best_within(candidates, request);
  }
  if (!chosen) throw refusal_of(request, candidates, backend);
  return *chosen;
}

}  // namespace

RunPlan make_run_plan(const RunPlanRequest& given, const Backend& backend) {
  SNUG_CHECK(!given.lengths.empty() && given.global_batch > 0, "an empty request");
  RunPlanRequest request = given;
  PlanningProgress progress(request);
  take_row_sparse_sums(request);
  Splits splits = make_splits(request, backend, progress);
  const std::vector<Candidate> candidates = candidates_of(splits.list, request);
  const PlacedCandidate chosen = chosen_among(candidates, backend, request);

  BatchSplit& split = splits.list[static_cast<size_t>(chosen.split - splits.list.data())];
  SNUG_CHECK(!split.program->graph.nodes.empty(), "the graph of the chosen plan was let go");
  split.program->plan = chosen.plan();
  RunPlan run = programs_beside_longest(request, split, splits.once, backend, progress);
  run.report = report_of(request, candidates, chosen, run);
  // Last, since the candidates refer to its problem.
  (request.trains ? run.train : run.eval).push_back(std::move(*split.program));
  compile::let_traces_go(request.network);
  progress.finish();
  return run;
}

}  // namespace snug::choose
