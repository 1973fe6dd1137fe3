// SPDX-License-Identifier: Apache-2.0
#include "choose/update_programs.h"

#include <algorithm>

#include "base/check.h"
#include "choose/plain_program.h"
#include "compile/compile.h"

namespace snug::choose {
namespace {

// The one that packs these weights; null where it is not made yet.
PlannedProgram* find_prologue(UpdatePrograms& made, const compile::PackedWeights& packed) {
  const auto found = std::find_if(made.prologues.begin(), made.prologues.end(),
                                  [&](const auto& prologue) { return prologue.first == packed; });
  return found == made.prologues.end() ? nullptr : &found->second;
}

}  // namespace

PlannedProgram& UpdatePrograms::prologue_of(const BatchSplit& split) {
  PlannedProgram* const found = find_prologue(*this, split.form.packed);
  SNUG_CHECK(found != nullptr, "a split without its prologue");
  return *found;
}

bool has_update_program(const RunPlanRequest& request, const BatchSplit& split) {
  return request.trains && split.accumulation_steps > 1 && request.recipe.updates;
}

std::vector<const PlannedProgram*> once_an_update(const RunPlanRequest& request,
                                                  const BatchSplit& split, const Backend& backend,
                                                  UpdatePrograms& made) {
  const compile::Recipe recipe = recipe_for(request, split.form);
  std::vector<const PlannedProgram*> programs;
  if (split.has_prologue) {
    if (find_prologue(made, split.form.packed) == nullptr) {
      Graph graph = compile::build_prologue_graph(request.network, recipe, request.lengths.back());
      made.prologues.emplace_back(
          split.form.packed, plain_program(request, saved_plan_of(request, split.form), "prologue",
                                           std::move(graph), {}, backend));
    }
    programs.push_back(&made.prologue_of(split));
  }
  if (has_update_program(request, split)) {
    if (!made.update)
      made.update =
          plain_program(request, request.saved, "update",
                        compile::build_update_graph(request.network, recipe), {}, backend);
    programs.push_back(&*made.update);
  }
  return programs;
}

}  // namespace snug::choose
