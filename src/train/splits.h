// SPDX-License-Identifier: Apache-2.0
// The candidates of a run plan: one a split of the global batch, each with its resident bytes and
// placed plans.
#pragma once

#include <string>
#include <vector>

#include "plan/frontier.h"
#include "train/run_plan.h"

namespace snug::train {

struct Split {
  int64_t micro_batch = 0;
  int64_t accumulation_steps = 0;
  int64_t resident_bytes = 0;
  int64_t update_arena_bytes = 0;
  /// Gradients in the arena that all live until the global clip; see PlanReport::arena_bytes.
  std::vector<plan::StorageId> clipped_gradients;
  double update_seconds = 0;
  plan::Problem problem;    // of the largest bucket
  plan::Frontier frontier;  // of it; one plan for a named strategy
};

/// One way to run: a split and one of its plans.
struct Candidate {
  const Split* split = nullptr;
  const plan::Plan* plan = nullptr;
  int64_t arena_bytes = 0;
  int64_t peak_bytes = 0;  // process + resident + arena
  double step_seconds = 0;
};

/// Micro-batches to try: the batch in 1, 2, 3, 4, 6, 8, 12, ... pieces, down to single rows.
[[nodiscard]] std::vector<int64_t> micro_batches(int64_t global_batch);

/// What this request may be split into. Batch statistics are those of a micro-batch, so a model
/// that has them trains in one piece unless the user allows otherwise, and then in equal pieces:
/// rows that only fill up the last one would count. Throws Error{bad_config} for a micro-batch that
/// breaks this.
[[nodiscard]] std::vector<int64_t> micro_batches_of(const RunPlanRequest& request);

/// `model`: a split whose schedules are taken over where the programs have the same ops; null to
/// plan from scratch.
[[nodiscard]] Split make_split(const RunPlanRequest& request, int64_t micro_batch,
                               const Backend& backend, const Split* model = nullptr);
/// One for each micro-batch, in this order.
[[nodiscard]] std::vector<Split> make_splits(const RunPlanRequest& request,
                                             const std::vector<int64_t>& micro_batches,
                                             const Backend& backend);

/// Every candidate of the splits, and the best: least seconds, then least bytes, that fits; null
/// where none does.
[[nodiscard]] std::vector<Candidate> candidates_of(const std::vector<Split>& splits,
                                                   const RunPlanRequest& request);
[[nodiscard]] const Candidate* best_within(const std::vector<Candidate>& candidates,
                                           int64_t budget_bytes);

}  // namespace snug::train
