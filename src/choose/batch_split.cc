// SPDX-License-Identifier: Apache-2.0
#include "choose/batch_split.h"

#include <algorithm>

#include "base/units.h"
#include "compile/compile.h"
#include "plan/improve/bound.h"

namespace snug::choose {

void BatchSplit::let_graph_go() {
  program->graph = {};
  program->stages = {};
  program->lowered.nodes_of_op = {};
  program->lowered.storage_of_value = {};
  evaluation.reset();
}

compile::Recipe recipe_for(const RunPlanRequest& request, const SplitForm& form) {
  compile::Recipe recipe = request.recipe;
  recipe.has_two_passes = form.has_two_passes;
  recipe.packed = form.packed;
  return recipe;
}

void take_row_sparse_sums(RunPlanRequest& request) {
  if (!request.trains) return;
  request.recipe.row_sparse = compile::row_sparse_sums_of(
      request.network, request.recipe, {request.global_batch, request.lengths.back()});
}

std::optional<SplitForm> packed_form(const RunPlanRequest& request, const BatchSplit& split) {
  if (!request.packs_weights.value_or(true) || split.packable.empty()) return std::nullopt;
  return SplitForm{split.form.micro_batch, split.form.has_two_passes, split.packable};
}

Graph evaluation_graph(const RunPlanRequest& request, const BatchSplit& split,
                       const compile::ProgramShape& shape, const Backend& backend,
                       const compile::CompileHooks& hooks) {
  const WeightPanels panels = split.form.packed.empty() ? WeightPanels{} : backend.weight_panels();
  return compile::build_eval_graph(request.network, shape, split.serves_evaluation, panels, hooks);
}

bool has_resident_output(const plan::Problem& problem, const plan::Op& op) {
  return std::any_of(op.outputs.begin(), op.outputs.end(),
                     [&](plan::StorageId id) { return problem.storages[id].resident; });
}

bool is_left_out_first(const plan::Problem& problem, const plan::Op& op) {
  return op.phase == Phase::update && has_resident_output(problem, op) &&
         std::any_of(op.inputs.begin(), op.inputs.end(), [&](plan::StorageId id) {
           return std::find(op.outputs.begin(), op.outputs.end(), id) == op.outputs.end();
         });
}

int64_t runs_of(const BatchSplit& split) {
  return split.form.has_two_passes ? 2 : split.accumulation_steps;
}

double step_seconds_of(const BatchSplit& split, double program_seconds) {
  return static_cast<double>(runs_of(split)) * program_seconds - split.skipped_seconds +
         split.update_seconds;
}

int64_t peak_bytes(const BatchSplit& split, int64_t arena_bytes, const RunPlanRequest& request) {
  const int64_t arena = std::max(arena_bytes, split.other_arena_bytes);
  return std::max(request.process_bytes + split.resident_bytes + round_up(arena, kPageBytes),
                  request.startup_bytes);
}

int64_t least_peak_bytes(const BatchSplit& split, const RunPlanRequest& request) {
  return peak_bytes(split, plan::working_set_bound(split.problem()).bytes, request);
}

}  // namespace snug::choose
