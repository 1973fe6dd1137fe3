// SPDX-License-Identifier: Apache-2.0
// What runs once an update: the prologue and the update of accumulated gradients. It is the same in
// all splits that accumulate and pack the same weights, so it is made once.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "choose/batch_split.h"

namespace snug::choose {

struct UpdatePrograms {
  std::vector<std::pair<compile::PackedWeights, PlannedProgram>> prologues;
  std::optional<PlannedProgram> update;
  /// The prologue of a split that has one. It was made.
  [[nodiscard]] PlannedProgram& prologue_of(const BatchSplit& split);
};

/// Whether its update is a program of its own.
[[nodiscard]] bool has_update_program(const RunPlanRequest& request, const BatchSplit& split);

/// What this split runs once an update; makes what is not there yet.
[[nodiscard]] std::vector<const PlannedProgram*> once_an_update(const RunPlanRequest& request,
                                                                const BatchSplit& split,
                                                                const Backend& backend,
                                                                UpdatePrograms& made);

}  // namespace snug::choose
