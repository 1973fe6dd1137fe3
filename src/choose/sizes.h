// SPDX-License-Identifier: Apache-2.0
// Into which micro-batches a batch may be split, and which of these are tried. Builds no program
// but one of single rows, where the network normalises by its batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "choose/request.h"
#include "plan/problem/plan.h"

namespace snug::choose {

/// Why the rows of a program of this run depend on each other, in training or in evaluation, which
/// has the same micro-batch; empty where they do not.
[[nodiscard]] std::string coupling_of(const RunPlanRequest& request);

/// Micro-batches to try: the batch in 1, 2, 3, 4, 6, 8, 12, ... pieces, down to single rows.
[[nodiscard]] std::vector<int64_t> micro_batches(int64_t global_batch);

/// What this request may be split into. Batch statistics are those of a micro-batch, so a model
/// that has them trains in one piece unless the user allows otherwise, and then in equal pieces:
/// rows that only fill up the last one would count. Throws Error{bad_config} for a micro-batch that
/// breaks this, and where two passes are asked for and there is nothing to wait for.
[[nodiscard]] std::vector<int64_t> micro_batches_of(const RunPlanRequest& request);

/// Whether micro-batches of this size may be run in one pass, or in two.
[[nodiscard]] bool may_have_passes(const RunPlanRequest& request, int64_t micro_batch,
                                   bool has_two_passes);

/// The most forward ops of a program of which many splits are planned, or a form with packed
/// weights.
inline constexpr size_t kMostOpsOfMany = 40'000;

/// Those of `sizes` whose programs are affordable: the whole batch, the largest that accumulates
/// (which has the others' schedules), the smallest, and in between as many as there is time for. Of
/// extremely long programs only the whole batch and single rows. `problem` is of any of them: they
/// have the same forward ops.
[[nodiscard]] std::vector<int64_t> affordable(const std::vector<int64_t>& sizes,
                                              const plan::Problem& problem);

/// The largest of `sizes` that accumulates, whose schedules all that do have; nothing where none
/// is.
[[nodiscard]] std::optional<int64_t> largest_accumulating(const std::vector<int64_t>& sizes,
                                                          int64_t global_batch);

}  // namespace snug::choose
