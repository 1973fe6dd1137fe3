// SPDX-License-Identifier: Apache-2.0
#include "fit/run_plan.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "base/units.h"
#include "compile/backward.h"
#include "compile/value_names.h"
#include "fit/plan_picture.h"
#include "fit/refusal.h"
#include "fit/saved_plan.h"
#include "fit/splits.h"
#include "plan/frontier/shorter_net.h"
#include "plan/improve/bound.h"
#include "plan/placement/assemble.h"
#include "plan/problem/liveness.h"
#include "snug/error.h"

namespace snug::train {
namespace {

constexpr size_t kMostPrices = 8;
constexpr size_t kFewestPrices = 4;
constexpr size_t kLongProgram = 150'000;  // ops; then the smallest and the chosen plan must do
constexpr size_t kPricedSteps = 45'000;   // of all of them: placing a long schedule takes time

PlannedProgram planned_program(Graph graph, const Lengths& length, const Backend& backend,
                               const std::string& strategy) {
  PlannedProgram program{.length = length, .graph = std::move(graph), .lowered = {}, .plan = {}};
  program.lowered = lower(program.graph, backend);
  program.plan = plan::plan_strategy(program.lowered.problem, strategy);
  return program;
}

/// The program of a shorter bucket: with the named strategy or keep-all where that needs no more
/// than `arena_budget`, else with the fastest schedule of the longest bucket's that does. Its
/// problem is a part of the longest's, so in the end the chosen one fits. `longest`: its plan is
/// chosen.
PlannedProgram shorter_program(Graph graph, const Lengths& length, const Backend& backend,
                               int64_t arena_budget, const std::string& strategy,
                               const Split& longest) {
  PlannedProgram program =
      planned_program(std::move(graph), length, backend, strategy.empty() ? "keep-all" : strategy);
  if (program.plan.arena_bytes <= arena_budget) return program;
  const plan::Problem& problem = program.lowered.problem;
  const auto follow = [&](std::span<const plan::OpId> schedule, const std::string& name) {
    const auto part = plan::schedule_of_part(problem, longest.problem(), schedule);
    if (!part || plan::measured(problem, *part, name).load_bytes > arena_budget) return false;
    program.plan = plan::assemble(problem, *part, name, plan::kQuickFrontier.placement);
    return program.plan.arena_bytes <= arena_budget;
  };
  const auto& points = longest.frontier->points();
  for (size_t i = points.size(); i-- > 0 && strategy.empty();) {
    if (follow(points[i].schedule, points[i].strategy)) return program;
  }
  std::vector<plan::OpId> schedule;
  for (const plan::Step& step : longest.program->plan.steps) schedule.push_back(step.op);
  if (!follow(schedule, longest.program->plan.strategy)) {
    const plan::Frontier frontier = plan::build_frontier(problem, plan::kQuickFrontier);
    std::optional<plan::Plan> fastest = plan::fastest_within(frontier, arena_budget);
    program.plan = fastest ? std::move(*fastest) : frontier.smallest();
  }
  return program;
}

// So many points of a curve, the first and the last among them, in steps of equal ratios of bytes
// and seconds together: a steep end gets its share, and so does a flat one.
std::vector<const Candidate*> spread_along(const std::vector<const Candidate*>& curve,
                                           size_t count) {
  if (count < 2) return {curve.begin(), curve.begin() + static_cast<std::ptrdiff_t>(count)};
  const auto way_to = [&](const Candidate* at) {
    const Candidate* first = curve.front();
    return std::log(static_cast<double>(first->least_peak_bytes) /
                    static_cast<double>(at->least_peak_bytes)) +
           std::log(at->step_seconds / first->step_seconds);
  };
  const double step = way_to(curve.back()) / static_cast<double>(count - 1);
  std::vector<const Candidate*> chosen = {curve.front()};
  for (const Candidate* each : curve) {
    if (way_to(each) >= step * static_cast<double>(chosen.size()) || each == curve.back())
      chosen.push_back(each);
  }
  return chosen;
}

// Four to eight candidates that no other beats in bytes and seconds, spread along the curve, all
// placed; and the chosen one. Smallest budget first.
std::vector<PriceRow> price_list(const RunPlanRequest& request,
                                 const std::vector<Candidate>& candidates,
                                 const PlacedCandidate& smallest, const PlacedCandidate& chosen) {
  std::vector<const Candidate*> curve;  // largest first
  for (const Candidate& candidate : candidates) {
    if (curve.empty() || candidate.least_peak_bytes < curve.back()->least_peak_bytes)
      curve.push_back(&candidate);
  }
  std::vector<PlacedCandidate> shown = {smallest, chosen};
  const size_t steps = chosen.split->problem().ops.size();
  const size_t fewest = steps <= kLongProgram ? kFewestPrices : 0;
  const size_t count =
      std::min(curve.size(), std::clamp(kPricedSteps / (steps + 1), fewest, kMostPrices));
  for (const Candidate* each : spread_along(curve, count)) shown.push_back(placed(*each, request));
  std::stable_sort(shown.begin(), shown.end(), [](const auto& a, const auto& b) {
    return a.peak_bytes != b.peak_bytes ? a.peak_bytes < b.peak_bytes
                                        : a.step_seconds < b.step_seconds;
  });
  std::vector<PriceRow> rows;
  const PlacedCandidate* last = nullptr;
  for (const PlacedCandidate& each : shown) {
    const bool is_chosen = each.is_same_as(chosen);
    if (last != nullptr && each.is_same_as(*last)) continue;
    if (!is_chosen && !rows.empty() && each.step_seconds >= rows.back().step_seconds) continue;
    last = &each;
    // Peaks of one page are one budget.
    const int64_t budget_bytes = round_up(each.peak_bytes, kPageBytes);
    if (!rows.empty() && rows.back().budget_bytes == budget_bytes) {
      if (rows.back().is_chosen) continue;
      rows.pop_back();
    }
    rows.push_back({.budget_bytes = budget_bytes,
                    .step_seconds = each.step_seconds,
                    .micro_batch = each.split->micro_batch,
                    .strategy = each.split->frontier->points()[each.point].strategy,
                    .two_pass_clip = each.split->has_two_passes,
                    .packed_weights = !each.split->packed.empty(),
                    .is_chosen = is_chosen});
  }
  return rows;
}

// What keep-all needs with the batch in as few pieces as may be.
void fill_keep_all(const RunPlanRequest& request, const std::vector<Candidate>& candidates,
                   PlanReport& report) {
  const Split& split = *std::max_element(candidates.begin(), candidates.end(),
                                         [](const Candidate& a, const Candidate& b) {
                                           const auto order = [](const Split& of) {
                                             return std::pair(of.micro_batch, of.packed.empty());
                                           };
                                           return order(*a.split) < order(*b.split);
                                         })
                            ->split;
  const int64_t arena_bytes =
      std::max(split.frontier->keep_all_arena_bytes(), split.other_arena_bytes);
  report.keep_all_peak_bytes =
      std::max(request.process_bytes + split.resident_bytes + round_up(arena_bytes, kPageBytes),
               request.startup_bytes);
  report.keep_all_micro_batch = split.micro_batch;
}

std::vector<MemoryComponent> components(const RunPlan& run, int64_t process_bytes) {
  std::map<std::string, int64_t> sums;
  for (const auto& [name, entry] : run.residents.entries()) {
    const char* part = "batch and scalars";
    if (is_of_model(entry.kind)) part = "weights";
    if (name.starts_with(kKeptBufferPrefix)) part = "running statistics to go back to";
    if (entry.kind == ValueKind::cached) part = "made of weights once an update";
    if (entry.kind == ValueKind::state)
      part = name.starts_with(kGradientPrefix) ? "gradients" : "optimizer states";
    sums[part] += entry.bytes;
  }
  if (run.gradient_bytes > 0) sums["gradients"] += run.gradient_bytes;
  sums["activations (arena)"] = reported_arena_bytes(run, run.arena_bytes);
  if (process_bytes > 0) sums["process"] = process_bytes;
  std::vector<MemoryComponent> parts;
  for (const auto& [name, bytes] : sums) parts.push_back({name, bytes});
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return parts;
}

std::vector<StateReport> states_in(const RunPlanRequest& request, const RunPlan& run) {
  std::vector<StateReport> states;
  const optim::Options& options = request.recipe.optimizer;
  if (options.optimizer == nullptr) return states;  // evaluation alone
  const char* coded = optim::word_of(request.recipe.states.codec);
  for (const auto& [name, entry] : run.residents.entries()) {
    if (entry.kind != ValueKind::parameter) continue;
    for (const StateSpec& state :
         (*options.optimizer->states)(options.settings, entry.type.shape)) {
      const std::string value = state.role + "." + name;
      const auto bytes_of = [&](const std::string& suffix) {
        return run.residents.has(value + suffix) ? run.residents.at(value + suffix).bytes : 0;
      };
      const int64_t whole = bytes_of("");
      const int64_t codes = bytes_of(optim::kCodesSuffix) + bytes_of(optim::kScalesSuffix);
      if (whole + codes == 0) continue;  // the weight is frozen
      states.push_back({.name = name,
                        .role = state.role,
                        .codec = whole > 0 ? kPlainStates : coded,
                        .bytes = whole + codes});
    }
  }
  return states;
}

void fill_report(const RunPlanRequest& request, const std::vector<Candidate>& candidates,
                 const PlacedCandidate& chosen, RunPlan& run) {
  const Split& split = *chosen.split;
  const plan::Problem& problem = split.problem();
  const plan::Plan& plan = split.program->plan;
  const plan::Plan keep_all = split.frontier->keep_all();
  PlanReport& report = run.report;
  report.budget_bytes = request.budget_bytes;
  report.row_coupling = coupling_of(request);
  report.process_bytes = request.process_bytes;
  report.resident_bytes = run.residents.total_bytes() + run.gradient_bytes;
  report.arena_bytes = reported_arena_bytes(run, run.arena_bytes);
  report.planned_peak_bytes = std::max(
      report.process_bytes + report.resident_bytes + round_up(report.arena_bytes, kPageBytes),
      request.startup_bytes);
  report.keep_all_arena_bytes = reported_arena_bytes(run, keep_all.arena_bytes);
  report.load_bytes = reported_arena_bytes(run, plan.load_bytes);
  report.working_set_bound_bytes =
      plan::working_set_bound_beyond(problem, split.clipped_gradients).bytes;
  report.micro_batch = split.micro_batch;
  report.accumulation_steps = split.accumulation_steps;
  report.two_pass_clip = split.has_two_passes;
  report.packed_weights = !split.packed.empty();
  report.dying_gradient_bytes = split.dying_gradient_bytes;
  report.step_seconds = chosen.step_seconds;
  report.step_seconds_uncertainty = split.program->lowered.seconds_uncertainty;
  const auto pieces = static_cast<double>(runs_of(split));
  const double keep_all_step = step_seconds_of(split, keep_all.seconds);
  report.recompute_overhead = keep_all_step > 0 ? chosen.step_seconds / keep_all_step - 1 : 0;
  const double bound = plan::lower_bound_seconds(problem, plan.arena_bytes);
  // Below 0 where running again is faster than keeping, which costs seconds a byte as well.
  report.lower_bound_overhead =
      keep_all_step > 0
          ? std::min(pieces * (bound - keep_all.seconds) / keep_all_step, report.recompute_overhead)
          : 0;
  report.strategy = plan.strategy;
  report.ops_run_again =
      static_cast<int64_t>(plan.steps.size()) - static_cast<int64_t>(problem.ops.size());
  const auto& step = plan.steps[plan.peak_step];
  const plan::Op& op = problem.ops[step.op];
  report.peak_op = (op.scope.empty() ? "" : op.scope.str() + "/") + op.name;
  report.peak_tensors = peak_tensors(problem, plan);
  report.blocks = describe_blocks(problem, plan, keep_all);
  if (request.wants_picture) {
    report.curves = {memory_curve(problem, keep_all, "keep-all"),
                     memory_curve(problem, plan, "this plan")};
    report.placed = placed_tensors(problem, plan);
  }
  const PlacedCandidate smallest = smallest_of(candidates, request);
  report.smallest_budget_bytes = round_up(smallest.peak_bytes, kPageBytes);
  fill_keep_all(request, candidates, report);
  report.train_batch_size = request.global_batch;
  report.max_length = request.lengths.back();
  report.prices = price_list(request, candidates, smallest, chosen);
  std::vector<std::string> names;
  for (const auto& [name, entry] : run.residents.entries()) {
    if (entry.kind != ValueKind::parameter) continue;
    report.parameters += element_count(entry.type);
    names.push_back(name);
  }
  if (request.trains) {
    for (const std::string& name :
         trainable_names(names, request.recipe.freeze, request.network.is_frozen)) {
      report.trainable_parameters += element_count(run.residents.at(name).type);
    }
  }
  report.components = components(run, request.process_bytes);
  report.states = states_in(request, run);
}

void fill_programs(const Split& split, RunPlan& run) {
  PlanReport& report = run.report;
  report.programs = static_cast<int64_t>(run.train.size() + run.eval.size());
  for (const auto* program : {&run.prologue, &run.update}) report.programs += *program ? 1 : 0;
  for (const PlannedProgram& program : run.train)
    report.lengths.push_back(
        {.length = program.length, .update_seconds = step_seconds_of(split, program.plan.seconds)});
}

void count_memory(const Graph& graph, const plan::Plan& plan, const Backend& backend,
                  RunPlan& run) {
  run.residents.add(graph, backend);
  run.arena_bytes = std::max(run.arena_bytes, plan.arena_bytes);
}

}  // namespace

PlannedProgram plan_program(Graph graph, const Lengths& length, const Backend& backend,
                            const std::string& strategy) {
  return planned_program(std::move(graph), length, backend, strategy);
}

RunPlan make_run_plan(const RunPlanRequest& given, const Backend& backend) {
  SNUG_CHECK(!given.lengths.empty() && given.global_batch > 0, "an empty request");
  RunPlanRequest request = given;
  Splits splits = make_splits(request, backend);
  const std::vector<Candidate> candidates = candidates_of(splits.list, request);
  auto chosen = best_within(candidates, request);
  if (!chosen && request.takes_smallest) {
    request.budget_bytes = round_up(smallest_of(candidates, request).peak_bytes, kPageBytes);
    chosen = best_within(candidates, request);
  }
  if (!chosen) throw refusal_of(request, candidates, backend);

  Split& split = splits.list[static_cast<size_t>(chosen->split - splits.list.data())];
  SNUG_CHECK(!split.program->graph.nodes.empty(), "the graph of the chosen plan was let go");
  split.program->plan = chosen->plan();
  RunPlan run;
  run.micro_batch = split.micro_batch;
  run.accumulation_steps = split.accumulation_steps;
  run.has_two_passes = split.has_two_passes;
  run.packed = split.packed;
  const Recipe recipe = recipe_for(request, {run.micro_batch, run.has_two_passes, run.packed});
  const int64_t arena_budget = request.budget_bytes - request.process_bytes - split.resident_bytes;
  const std::string strategy = request.strategy;
  const int64_t steps = splits.steps;
  const auto step = [&](const char* phase) {
    const auto left = static_cast<int64_t>(request.lengths.size()) * (request.trains ? 2 : 1) -
                      static_cast<int64_t>(run.eval.size() + run.train.size());
    if (request.on_progress) request.on_progress(steps - kPartsOfStep * (1 + left), steps, phase);
  };
  const auto add = [&](std::vector<PlannedProgram>& list, PlannedProgram program) {
    count_memory(program.graph, program.plan, backend, run);
    list.push_back(std::move(program));
  };
  for (const Lengths& length : request.lengths) {
    const bool is_longest = length == request.lengths.back();
    const BatchShape shape{run.micro_batch, length};
    step(kBuilding);
    if (!is_longest)
      add(run.eval, plain_program(request, "eval",
                                  build_eval_graph(request.network, shape, split.serves_evaluation),
                                  length, backend));
    else if (split.evaluation)
      add(run.eval, std::move(*split.evaluation));
    step(kBuilding);
    if (is_longest) {
      // It decided, and runs exactly the plan that was chosen.
      count_memory(split.program->graph, split.program->plan, backend, run);
    } else if (request.trains) {
      // A named strategy is to need what it needs at the longest; otherwise the budget may be used.
      const int64_t most = strategy.empty() ? arena_budget : split.program->plan.arena_bytes;
      Graph graph = build_train_graph(request.network, recipe, shape, run.accumulation_steps);
      add(run.train,
          request.saved != nullptr
              ? plain_program(request, "train", std::move(graph), length, backend)
              : shorter_program(std::move(graph), length, backend, most, strategy, split));
    }
    step(kPlacement);
  }
  if (request.trains) run.residents.add(kept_buffers(split.program->graph, recipe), backend);
  const auto take_once = [&](PlannedProgram& made) {
    count_memory(made.graph, made.plan, backend, run);
    return std::move(made);
  };
  if (split.has_prologue) run.prologue = take_once(splits.once.prologue_of(split));
  if (request.trains && run.accumulation_steps > 1 && request.recipe.updates)
    run.update = take_once(*splits.once.update);
  run.residents.place(backend.alignment());
  for (const plan::StorageId gradient : split.clipped_gradients)
    run.gradient_bytes += split.problem().storages[gradient].bytes;
  run.gradient_bytes = run.gradient_bytes / kPageBytes * kPageBytes;
  SNUG_CHECK(run.residents.total_bytes() == split.resident_bytes, "the resident layout changed");
  SNUG_CHECK(run.arena_bytes <= arena_budget, "a shorter bucket needs more than the longest");
  fill_report(request, candidates, *chosen, run);
  (request.trains ? run.train : run.eval).push_back(std::move(*split.program));
  fill_programs(split, run);
  let_traces_go(request.network);
  if (request.on_progress) request.on_progress(steps, steps, kPlacement);
  return run;
}

}  // namespace snug::train
