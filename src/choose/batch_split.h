// SPDX-License-Identifier: Apache-2.0
// A split of the global batch into micro-batches: what it needs whatever its schedule, and the
// frontier of its schedules. How one is built: build_split.h.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "choose/request.h"
#include "choose/run_plan.h"
#include "plan/frontier/frontier.h"

namespace snug::choose {

/// How a batch may be split.
struct SplitForm {
  int64_t micro_batch = 0;
  bool has_two_passes = false;         // Recipe
  compile::PackedWeights packed = {};  // Recipe
};

struct BatchSplit {
  SplitForm form;
  int64_t accumulation_steps = 0;
  compile::PackedWeights packable;  // of a split that packs nothing: what another form of it would
  int64_t resident_bytes = 0;
  int64_t other_arena_bytes = 0;  // of what runs beside the training program
  /// Gradients in the arena that all live until the global clip; see PlanReport::arena_bytes.
  std::vector<plan::StorageId> clipped_gradients;
  /// The bytes of gradients in the arena that die as they are used.
  int64_t dying_gradient_bytes = 0;
  double skipped_seconds = 0;      // of steps, which the first of two passes leaves out
  double update_seconds = 0;       // of all that runs once an update
  bool has_prologue = false;       // which is one of them
  bool serves_evaluation = false;  // the prologue makes what evaluation reads, too
  /// For the longest rows; its plan is not chosen yet, and its graph may have been let go. The
  /// frontier refers to its problem, so it stays where it is.
  std::unique_ptr<PlannedProgram> program;
  std::optional<PlannedProgram> evaluation;  // of the same rows, beside training
  std::optional<plan::Frontier> frontier;    // one plan for a named strategy

  [[nodiscard]] const plan::Problem& problem() const { return program->lowered.problem; }
  /// And what else would run; what it needs is known. The problem stays.
  void let_graph_go();
};

/// The recipe of programs that are split so.
[[nodiscard]] compile::Recipe recipe_for(const RunPlanRequest& request, const SplitForm& form);
/// Which gradients are row-sparse where they are summed up: of the whole batch and the longest
/// rows, so the same for every split (Recipe::row_sparse).
void take_row_sparse_sums(RunPlanRequest& request);

/// The form of a planned split whose weights are packed; nothing where the request leaves it out or
/// there is nothing to pack.
[[nodiscard]] std::optional<SplitForm> packed_form(const RunPlanRequest& request,
                                                   const BatchSplit& split);

/// The forward part alone, as it runs beside a training program that is split so, or by itself.
[[nodiscard]] Graph evaluation_graph(const RunPlanRequest& request, const BatchSplit& split,
                                     const compile::ProgramShape& shape, const Backend& backend,
                                     const compile::CompileHooks& hooks = {});

[[nodiscard]] bool has_resident_output(const plan::Problem& problem, const plan::Op& op);
/// Whether the first of two passes leaves the op out: the step of an optimizer, which moves what
/// stays by what it reads beside it.
[[nodiscard]] bool is_left_out_first(const plan::Problem& problem, const plan::Op& op);

/// How often the training program runs in an update.
[[nodiscard]] int64_t runs_of(const BatchSplit& split);
/// The time of an update whose training program takes so long.
[[nodiscard]] double step_seconds_of(const BatchSplit& split, double program_seconds);
/// Process, resident and an arena, which is no smaller than that of the other programs.
[[nodiscard]] int64_t peak_bytes(const BatchSplit& split, int64_t arena_bytes,
                                 const RunPlanRequest& request);
/// No schedule of this split needs less: process, resident and the largest op.
[[nodiscard]] int64_t least_peak_bytes(const BatchSplit& split, const RunPlanRequest& request);

}  // namespace snug::choose
