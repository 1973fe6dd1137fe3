// SPDX-License-Identifier: Apache-2.0
// The candidates of a run plan: the splits of the global batch, each with its resident bytes and
// the frontier of its schedules. Placement waits until a candidate is asked for.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "fit/planned_run.h"
#include "fit/request.h"
#include "plan/frontier/frontier.h"

namespace snug::train {

struct Split {
  int64_t micro_batch = 0;
  int64_t accumulation_steps = 0;
  bool has_two_passes = false;  // Recipe
  PackedWeights packed;         // Recipe
  PackedWeights packable;       // of a split that packs nothing: what another form of it would
  int64_t resident_bytes = 0;
  int64_t other_arena_bytes = 0;  // of what runs beside the training program
  /// Gradients in the arena that all live until the global clip; see PlanReport::arena_bytes.
  std::vector<plan::StorageId> clipped_gradients;
  /// Of gradients in the arena that die as they are used.
  int64_t dying_gradient_bytes = 0;
  double skipped_seconds = 0;      // of steps, which the first of two passes leaves out
  double update_seconds = 0;       // of all that runs once an update
  bool has_prologue = false;       // which is one of them
  bool serves_evaluation = false;  // the prologue makes what evaluation reads, too
  /// Of the largest bucket; its plan is not chosen yet, and its graph may have been let go. The
  /// frontier refers to its problem, so it stays where it is.
  std::unique_ptr<PlannedProgram> program;
  std::optional<PlannedProgram> evaluation;  // of the same rows, beside training
  std::optional<plan::Frontier> frontier;    // one plan for a named strategy

  [[nodiscard]] const plan::Problem& problem() const { return program->lowered.problem; }
  /// And what else would run; what it needs is known. The problem stays.
  void let_graph_go();
};

/// One way to run: a split and one of its schedules.
struct Candidate {
  const Split* split = nullptr;
  size_t point = 0;  // of the split's frontier
  double step_seconds = 0;
  int64_t least_peak_bytes = 0;  // with the load in place of the arena
};

/// A candidate whose schedule was placed.
struct PlacedCandidate {
  const Split* split = nullptr;
  size_t point = 0;
  double step_seconds = 0;
  int64_t least_peak_bytes = 0;  // Candidate
  int64_t arena_bytes = 0;
  int64_t peak_bytes = 0;  // process + resident + arena

  [[nodiscard]] plan::Plan plan() const { return split->frontier->plan(point); }
  [[nodiscard]] bool is_same_as(const PlacedCandidate& other) const {
    return split == other.split && point == other.point;
  }
};

/// Why the rows of a program of this run depend on each other, in training or in evaluation, which
/// has the same micro-batch; empty where they do not.
[[nodiscard]] std::string coupling_of(const RunPlanRequest& request);

/// Micro-batches to try: the batch in 1, 2, 3, 4, 6, 8, 12, ... pieces, down to single rows.
[[nodiscard]] std::vector<int64_t> micro_batches(int64_t global_batch);

/// What this request may be split into. Batch statistics are those of a micro-batch, so a model
/// that has them trains in one piece unless the user allows otherwise, and then in equal pieces:
/// rows that only fill up the last one would count. Throws Error{bad_config} for a micro-batch that
/// breaks this.
[[nodiscard]] std::vector<int64_t> micro_batches_of(const RunPlanRequest& request);

/// Those of `sizes` whose programs are affordable: the whole batch, the largest that accumulates
/// (which has the others' schedules), the smallest, and in between as many as there is time for. Of
/// extremely long programs the whole batch and single rows alone. `problem` is of any of them: they
/// have the same forward ops.
[[nodiscard]] std::vector<int64_t> affordable(const std::vector<int64_t>& sizes,
                                              const plan::Problem& problem);

/// The largest of `sizes` that accumulates, whose schedules all that do have; nothing where none
/// is.
[[nodiscard]] std::optional<int64_t> largest_accumulating(const std::vector<int64_t>& sizes,
                                                          int64_t global_batch);

/// What runs once an update: the same in all splits that accumulate and pack the same weights, so
/// it is made once.
struct UpdatePrograms {
  std::vector<std::pair<PackedWeights, PlannedProgram>> prologues;
  std::optional<PlannedProgram> update;
  /// The one that packs these weights; null where it is not made yet.
  [[nodiscard]] PlannedProgram* find_prologue(const PackedWeights& packed);
  /// The prologue of a split that has one. It was made.
  [[nodiscard]] PlannedProgram& prologue_of(const Split& split);
};

/// All splits that are tried, and what they share.
struct Splits {
  std::vector<Split> list;
  UpdatePrograms once;
  int64_t steps = 0;  // planning_steps(); forms with packed weights are no steps of their own
};

/// A program whose plan is not searched: the saved one's of this kind, or keep-all.
[[nodiscard]] PlannedProgram plain_program(const RunPlanRequest& request, const std::string& kind,
                                           Graph graph, const Lengths& length,
                                           const Backend& backend);

/// How a batch may be split.
struct SplitForm {
  int64_t micro_batch = 0;
  bool has_two_passes = false;
  PackedWeights packed = {};
};

/// The recipe of programs that are split so.
[[nodiscard]] Recipe recipe_for(const RunPlanRequest& request, const SplitForm& form);
/// Whether micro-batches of this size may be run in one pass, or in two. Throws Error{bad_config}
/// where two passes are asked for and there is nothing to wait for.
[[nodiscard]] bool may_have_passes(const RunPlanRequest& request, int64_t micro_batch,
                                   bool has_two_passes);
/// The form of a planned split whose weights are packed; nothing where the request leaves it out or
/// there is nothing to pack.
[[nodiscard]] std::optional<SplitForm> packed_form(const RunPlanRequest& request,
                                                   const Split& split);
/// How often the training program runs in an update.
[[nodiscard]] int64_t runs_of(const Split& split);
/// Of an update whose training program takes so long.
[[nodiscard]] double step_seconds_of(const Split& split, double program_seconds);

/// Told what is begun.
using PhaseSink = std::function<void(const char* phase)>;

/// Everything of a split but its schedules, which take most of the time: what it needs without any
/// of them, and the bound of what they need.
[[nodiscard]] Split make_unplanned_split(const RunPlanRequest& request, const SplitForm& form,
                                         const Backend& backend, UpdatePrograms& update,
                                         const PhaseSink& on_phase = {});
/// No schedule of this split needs less: process, resident and the largest op.
[[nodiscard]] int64_t least_peak_bytes(const Split& split, const RunPlanRequest& request);

/// Finds its schedules. `model`: a split whose schedules are taken over where the programs have the
/// same ops, or the same but for packings; null to plan from scratch.
void plan_split(const RunPlanRequest& request, const Split* model, Split& split,
                const plan::ShareSink& on_share = {});
/// Progress of a plan: two steps a split (its programs, its schedules), then one a program; each of
/// so many parts.
inline constexpr int64_t kPartsOfStep = 100;
inline constexpr const char* kBuilding = "building the graph";
inline constexpr const char* kLowering = "lowering";
inline constexpr const char* kPlacement = "placement";
[[nodiscard]] int64_t planning_steps(const RunPlanRequest& request, size_t splits);
/// One for each micro-batch of micro_batches_of() and each of its forms; of very long programs for
/// some of them. A given micro-batch has the schedules that it would have among all. Graphs of all
/// would be half of the planning's memory again: only the split of best_within() has one in the
/// end, and where none fits and the smallest is to be taken, all have.
[[nodiscard]] Splits make_splits(const RunPlanRequest& request, const Backend& backend);

/// Every candidate of the splits, least seconds first, then least bytes.
[[nodiscard]] std::vector<Candidate> candidates_of(std::span<const Split> splits,
                                                   const RunPlanRequest& request);
[[nodiscard]] PlacedCandidate placed(const Candidate& candidate, const RunPlanRequest& request);
/// The first that fits the budget; nothing where none does.
[[nodiscard]] std::optional<PlacedCandidate> best_within(const std::vector<Candidate>& candidates,
                                                         const RunPlanRequest& request);
/// The one that needs the least memory.
[[nodiscard]] PlacedCandidate smallest_of(const std::vector<Candidate>& candidates,
                                          const RunPlanRequest& request);

}  // namespace snug::train
