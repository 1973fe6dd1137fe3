// SPDX-License-Identifier: Apache-2.0
#include "choose/run_report.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/units.h"
#include "choose/plan_picture.h"
#include "choose/prices.h"
#include "choose/sizes.h"
#include "compile/value_names.h"
#include "plan/improve/bound.h"

namespace snug::choose {
namespace {

// What is chosen, and what it was chosen for.
void fill_choice(const RunPlanRequest& request, const PlacedCandidate& chosen, PlanReport& report) {
  const BatchSplit& split = *chosen.split;
  report.budget_bytes = request.budget_bytes;
  report.row_coupling = coupling_of(request);
  report.train_batch_size = request.global_batch;
  report.max_length = request.lengths.back();
  report.micro_batch = split.form.micro_batch;
  report.accumulation_steps = split.accumulation_steps;
  report.two_pass_clip = split.form.has_two_passes;
  report.packed_weights = !split.form.packed.empty();
}

// Room for two batches of rows as the programs are fed them (train/batch_stream.h), and what the
// thread that reads them touches of its stack.
int64_t read_ahead_bytes(const RunPlanRequest& request, const BatchSplit& split,
                         const RunPlan& run) {
  constexpr int64_t kThreadBytes = 256 << 10;
  int64_t inputs = 0;  // of a micro-batch of the longest rows
  for (const auto& [name, entry] : run.residents.entries())
    inputs += entry.kind == ValueKind::input ? entry.bytes : 0;
  const int64_t micro_batches = (request.global_batch - 1) / split.form.micro_batch + 1;
  return round_up(kThreadBytes + 2 * micro_batches * inputs, kPageBytes);
}

// What brings rows sooner takes what the plan leaves: no plan is chosen for it. Returns its bytes.
int64_t fill_rows(const RunPlanRequest& request, const BatchSplit& split, const RunPlan& run,
                  PlanReport& report) {
  constexpr int64_t kMostHeld = 256 << 20;
  if (!request.trains) return 0;
  const int64_t left = request.budget_bytes - report.process_bytes - report.resident_bytes -
                       round_up(report.arena_bytes, kPageBytes);
  const int64_t file_bytes = round_up(request.row_file_bytes, kPageBytes);
  if (file_bytes > 0 && file_bytes <= std::min(left, kMostHeld))
    return report.held_rows_bytes = file_bytes;
  const int64_t ahead = request.reads_ahead ? read_ahead_bytes(request, split, run) : 0;
  return report.read_ahead_bytes = ahead <= left ? ahead : 0;
}

void fill_bytes(const RunPlanRequest& request, const BatchSplit& split, const RunPlan& run,
                PlanReport& report) {
  report.resident_bytes = run.residents.total_bytes() + run.gradient_bytes;
  report.arena_bytes = reported_arena_bytes(run, run.arena_bytes);
  report.process_bytes = request.process_bytes;
  report.process_bytes += fill_rows(request, split, run, report);
  report.planned_peak_bytes = std::max(
      report.process_bytes + report.resident_bytes + round_up(report.arena_bytes, kPageBytes),
      request.startup_bytes);
  report.load_bytes = reported_arena_bytes(run, split.program->plan.load_bytes);
  report.working_set_bound_bytes =
      plan::working_set_bound_beyond(split.problem(), split.clipped_gradients).bytes;
  report.dying_gradient_bytes = split.dying_gradient_bytes;
}

void fill_seconds(const BatchSplit& split, const plan::Plan& keep_all, double step_seconds,
                  PlanReport& report) {
  report.step_seconds = step_seconds;
  report.step_seconds_uncertainty = split.program->lowered.seconds_uncertainty;
  const double keep_all_step = step_seconds_of(split, keep_all.seconds);
  if (keep_all_step <= 0) return;
  report.recompute_overhead = step_seconds / keep_all_step - 1;
  const auto runs = static_cast<double>(runs_of(split));
  const double bound = plan::lower_bound_seconds(split.problem(), split.program->plan.arena_bytes);
  // Below 0 where running again is faster than keeping, which costs seconds a byte as well.
  report.lower_bound_overhead =
      std::min(runs * (bound - keep_all.seconds) / keep_all_step, report.recompute_overhead);
}

// The order of its ops, its peak and how the blocks of the model are treated.
void fill_schedule(const BatchSplit& split, const plan::Plan& keep_all, bool wants_picture,
                   PlanReport& report) {
  const plan::Problem& problem = split.problem();
  const plan::Plan& plan = split.program->plan;
  report.strategy = plan.strategy;
  report.ops_run_again =
      static_cast<int64_t>(plan.steps.size()) - static_cast<int64_t>(problem.ops.size());
  for (size_t step = 1; step < plan.steps.size(); ++step) {
    const plan::Fused how = plan.steps[step].fused;
    if (how == plan::Fused::no) continue;
    const bool is_second = plan.steps[step - 1].fused == plan::Fused::no;
    const bool is_sum = how == plan::Fused::sums;
    (is_sum ? report.fused_kernels : report.row_programs) += is_second ? 1 : 0;
    (is_sum ? report.fused_sums : report.row_program_ops) += is_second ? 2 : 1;
  }
  const plan::Op& op = problem.ops[plan.steps[plan.peak_step].op];
  report.peak_op = (op.scope.empty() ? "" : op.scope.str() + "/") + op.name;
  report.peak_tensors = peak_tensors(problem, plan);
  report.blocks = describe_blocks(problem, plan, keep_all);
  if (!wants_picture) return;
  report.curves = {memory_curve(problem, keep_all, "keep-all"),
                   memory_curve(problem, plan, "this plan")};
  report.placed = placed_tensors(problem, plan);
}

// What keep-all needs with the batch in as few pieces as may be.
void fill_keep_all(const RunPlanRequest& request, const std::vector<Candidate>& candidates,
                   PlanReport& report) {
  const auto order = [](const Candidate& candidate) {
    const SplitForm& form = candidate.split->form;
    return std::pair(form.micro_batch, form.packed.empty());
  };
  const BatchSplit& split =
      *std::max_element(candidates.begin(), candidates.end(),
                        [&](const Candidate& a, const Candidate& b) { return order(a) < order(b); })
           ->split;
  report.keep_all_peak_bytes = peak_bytes(split, split.frontier->keep_all_arena_bytes(), request);
  report.keep_all_micro_batch = split.form.micro_batch;
}

// What else could run.
void fill_prices(const RunPlanRequest& request, const std::vector<Candidate>& candidates,
                 const PlacedCandidate& chosen, PlanReport& report) {
  const PlacedCandidate smallest = smallest_of(candidates, request);
  report.smallest_budget_bytes = round_up(smallest.peak_bytes, kPageBytes);
  fill_keep_all(request, candidates, report);
  report.prices = price_list(request, candidates, smallest, chosen);
}

void fill_parameters(const RunPlanRequest& request, const RunPlan& run, PlanReport& report) {
  std::vector<std::string> names;
  for (const auto& [name, entry] : run.residents.entries()) {
    if (entry.kind != ValueKind::parameter) continue;
    report.parameters += element_count(entry.type);
    names.push_back(name);
  }
  if (!request.trains) return;
  for (const std::string& name :
       compile::trainable_names(names, request.recipe.freeze, request.network.is_frozen))
    report.trainable_parameters += element_count(run.residents.at(name).type);
}

std::vector<MemoryComponent> components_of(const RunPlan& run, const PlanReport& report) {
  std::map<std::string, int64_t> sums;
  for (const auto& [name, entry] : run.residents.entries()) {
    const char* part = "batch and scalars";
    if (is_of_model(entry.kind)) part = "weights";
    if (name.starts_with(compile::kKeptBufferPrefix)) part = "running statistics to go back to";
    if (entry.kind == ValueKind::cached) part = "made of weights once an update";
    if (entry.kind == ValueKind::state)
      part = name.starts_with(compile::kGradientPrefix) ? "gradients" : "optimizer states";
    sums[part] += entry.bytes;
  }
  if (run.gradient_bytes > 0) sums["gradients"] += run.gradient_bytes;
  sums["activations (arena)"] = reported_arena_bytes(run, run.arena_bytes);
  const int64_t of_rows = report.read_ahead_bytes + report.held_rows_bytes;
  if (report.process_bytes > 0) sums["process"] = report.process_bytes - of_rows;
  if (of_rows > 0) sums[report.held_rows_bytes > 0 ? "rows" : "rows read ahead"] = of_rows;
  std::vector<MemoryComponent> parts;
  for (const auto& [name, bytes] : sums) parts.push_back({name, bytes});
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return parts;
}

std::vector<StateReport> states_of(const RunPlanRequest& request, const RunPlan& run) {
  std::vector<StateReport> states;
  const optim::Options& options = request.recipe.optimizer;
  if (options.optimizer == nullptr) return states;  // only evaluation
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

// The program of the longest rows is not in the run yet.
void fill_programs(const RunPlanRequest& request, const BatchSplit& split, const RunPlan& run,
                   PlanReport& report) {
  report.programs = static_cast<int64_t>(run.train.size() + run.eval.size() + 1);
  for (const auto* program : {&run.prologue, &run.update}) report.programs += *program ? 1 : 0;
  const auto add = [&](const PlannedProgram& program) {
    report.lengths.push_back(
        {.length = program.length, .update_seconds = step_seconds_of(split, program.plan.seconds)});
  };
  if (!request.trains) return;
  for (const PlannedProgram& program : run.train) add(program);
  add(*split.program);
}

}  // namespace

PlanReport report_of(const RunPlanRequest& request, const std::vector<Candidate>& candidates,
                     const PlacedCandidate& chosen, const RunPlan& run) {
  const BatchSplit& split = *chosen.split;
  const plan::Plan keep_all = split.frontier->keep_all();
  PlanReport report;
  report.keep_all_arena_bytes = reported_arena_bytes(run, keep_all.arena_bytes);
  fill_choice(request, chosen, report);
  fill_bytes(request, split, run, report);
  fill_seconds(split, keep_all, chosen.step_seconds, report);
  fill_schedule(split, keep_all, request.wants_picture, report);
  fill_prices(request, candidates, chosen, report);
  fill_parameters(request, run, report);
  report.components = components_of(run, report);
  report.states = states_of(request, run);
  fill_programs(request, split, run, report);
  return report;
}

}  // namespace snug::choose
