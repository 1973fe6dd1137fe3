// SPDX-License-Identifier: Apache-2.0
// Flattens what the chain decided into a list of ops with repeats. A recomputation runs immediately
// before the first op that needs it, and only its closure. What is stored where is not decided
// here: exact liveness follows from the list.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "plan/chain/chain.h"

namespace snug::plan {

/// Runs the forward and backward actions. Where a recomputation would see a resident storage in
/// another version than in the given order, the storages it wanted are pinned from their first run
/// and the flattening starts again. Backward ops run in the
/// order of the problem. Nothing where no schedule results.
[[nodiscard]] std::optional<std::vector<OpId>> flatten(const ProblemIndex& index,
                                                       const Chain& chain,
                                                       std::span<const ChainAction> actions);

}  // namespace snug::plan
