// SPDX-License-Identifier: Apache-2.0
#include "choose/chosen_programs.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "choose/plain_program.h"
#include "choose/plan_split.h"
#include "compile/backward.h"
#include "compile/compile.h"
#include "plan/frontier/shorter_net.h"
#include "plan/placement/assemble.h"

namespace snug::choose {
namespace {

class ChosenPrograms {
 public:
  ChosenPrograms(const RunPlanRequest& request, BatchSplit& split, UpdatePrograms& once,
                 const Backend& backend, PlanningProgress& progress)
      : request_(request),
        split_(split),
        once_(once),
        backend_(backend),
        progress_(progress),
        recipe_(recipe_for(request, split.form)),
        arena_budget_(request.budget_bytes - request.process_bytes - split.resident_bytes) {}

  [[nodiscard]] RunPlan make() {
    run_.micro_batch = split_.form.micro_batch;
    run_.accumulation_steps = split_.accumulation_steps;
    run_.has_two_passes = split_.form.has_two_passes;
    run_.packed = split_.form.packed;
    for (size_t i = 0; i + 1 < request_.lengths.size(); ++i) add_shorter(request_.lengths[i]);
    add_longest();
    add_once_an_update();
    place_residents();
    return std::move(run_);
  }

 private:
  void add_shorter(const Lengths& length);
  void add_longest();
  void add_once_an_update();
  void place_residents();
  [[nodiscard]] PlannedProgram shorter_program(Graph graph, const Lengths& length) const;
  [[nodiscard]] bool follow(const plan::ScheduledPoint& point, int64_t most_bytes,
                            PlannedProgram& program) const;

  void tell(const char* phase);
  void add(std::vector<PlannedProgram>& list, PlannedProgram program) {
    list.push_back(counted(std::move(program)));
  }
  [[nodiscard]] PlannedProgram counted(PlannedProgram program) {
    count_memory(program);
    return program;
  }
  void count_memory(const PlannedProgram& program) {
    run_.residents.add(program.graph, backend_);
    run_.arena_bytes = std::max(run_.arena_bytes, program.plan.arena_bytes);
  }

  const RunPlanRequest& request_;
  BatchSplit& split_;
  UpdatePrograms& once_;
  const Backend& backend_;
  PlanningProgress& progress_;
  const compile::Recipe recipe_;
  const int64_t arena_budget_;
  RunPlan run_;
};

void ChosenPrograms::tell(const char* phase) {
  const size_t all = request_.lengths.size() * (request_.trains ? 2 : 1);
  progress_.tell_programs_left(static_cast<int64_t>(all - run_.eval.size() - run_.train.size()),
                               phase);
}

void ChosenPrograms::add_shorter(const Lengths& length) {
  const compile::ProgramShape shape{run_.micro_batch, length};
  tell(kBuilding);
  Graph evaluation = evaluation_graph(request_, split_, shape, backend_);
  add(run_.eval,
      plain_program(request_, request_.saved, "eval", std::move(evaluation), length, backend_));
  tell(kBuilding);
  if (request_.trains) {
    Graph graph =
        compile::build_train_graph(request_.network, recipe_, shape, run_.accumulation_steps);
    add(run_.train, request_.saved != nullptr ? plain_program(request_, request_.saved, "train",
                                                              std::move(graph), length, backend_)
                                              : shorter_program(std::move(graph), length));
  }
  tell(kPlacement);
}

// Its program decided, and runs exactly the plan that was chosen.
void ChosenPrograms::add_longest() {
  tell(kBuilding);
  if (split_.evaluation) add(run_.eval, std::move(*split_.evaluation));
  tell(kBuilding);
  count_memory(*split_.program);
  tell(kPlacement);
}

void ChosenPrograms::add_once_an_update() {
  if (request_.trains)
    run_.residents.add(compile::kept_buffers(split_.program->graph, recipe_), backend_);
  if (split_.has_prologue) run_.prologue = counted(std::move(once_.prologue_of(split_)));
  if (has_update_program(request_, split_)) run_.update = counted(std::move(*once_.update));
}

void ChosenPrograms::place_residents() {
  run_.residents.place(backend_.alignment());
  for (const plan::StorageId gradient : split_.clipped_gradients)
    run_.gradient_bytes += split_.problem().storages[gradient].bytes;
  run_.gradient_bytes = run_.gradient_bytes / kPageBytes * kPageBytes;
  SNUG_CHECK(run_.residents.total_bytes() == split_.resident_bytes, "the resident layout changed");
  SNUG_CHECK(run_.arena_bytes <= arena_budget_, "a shorter bucket needs more than the longest");
}

// With the named strategy or keep-all where that needs no more than there is, else with the fastest
// schedule of the longest rows' that does: its problem is a part of theirs, so in the end the
// chosen one fits.
PlannedProgram ChosenPrograms::shorter_program(Graph graph, const Lengths& length) const {
  const std::string& strategy = request_.strategy;
  const plan::Plan& chosen = split_.program->plan;
  // A named strategy is to need what it needs at the longest; otherwise the budget may be used.
  const int64_t most_bytes = strategy.empty() ? arena_budget_ : chosen.arena_bytes;
  PlannedProgram program{.length = length, .graph = std::move(graph), .lowered = {}, .plan = {}};
  program.lowered = compile::lower(program.graph, backend_, {.fusion = request_.fusion});
  const plan::Problem& problem = program.lowered.problem;
  program.plan = plan::plan_strategy(problem, strategy.empty() ? "keep-all" : strategy);
  if (program.plan.arena_bytes <= most_bytes) return program;
  const auto& points = split_.frontier->points();
  for (size_t i = points.size(); i-- > 0 && strategy.empty();) {
    if (follow(points[i], most_bytes, program)) return program;
  }
  plan::ScheduledPoint last{.schedule = {}, .strategy = chosen.strategy};
  for (const plan::Step& step : chosen.steps) last.schedule.push_back(step.op);
  if (follow(last, most_bytes, program)) return program;
  const plan::Frontier frontier = plan::build_frontier(problem, frontier_options(request_));
  std::optional<plan::Plan> fastest = plan::fastest_within(frontier, most_bytes);
  program.plan = fastest ? std::move(*fastest) : frontier.smallest();
  return program;
}

// Whether it fits with this schedule of the longest rows; its plan is that then.
bool ChosenPrograms::follow(const plan::ScheduledPoint& point, int64_t most_bytes,
                            PlannedProgram& program) const {
  const plan::Problem& problem = program.lowered.problem;
  const auto part = plan::schedule_of_part(problem, split_.problem(), point.schedule);
  if (!part) return false;
  plan::ScheduledPoint own = plan::measured(problem, *part, point.strategy);
  if (own.load_bytes > most_bytes) return false;
  program.plan = plan::placed_fused(problem, std::move(own), plan::kQuickFrontier.placement);
  return program.plan.arena_bytes <= most_bytes;
}

}  // namespace

RunPlan programs_beside_longest(const RunPlanRequest& request, BatchSplit& split,
                                UpdatePrograms& once, const Backend& backend,
                                PlanningProgress& progress) {
  return ChosenPrograms(request, split, once, backend, progress).make();
}

}  // namespace snug::choose
