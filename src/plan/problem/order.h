// SPDX-License-Identifier: Apache-2.0
// The order that planning starts from: the given one, with every update moved as early as its
// operands and the readers of the old values allow. Then gradients die at once and every block's
// backward part leaves the same behind.
#pragma once

#include <vector>

#include "base/id_vector.h"
#include "plan/problem/plan.h"

namespace snug::plan {

struct OrderedProblem {
  Problem problem;                // the same storages; ops in the new order
  IdVector<OpId, OpId> original;  // ids in the given problem
};

[[nodiscard]] OrderedProblem with_prompt_updates(const Problem& problem);

/// The order alone: OrderedProblem::original.
[[nodiscard]] std::vector<OpId> prompt_update_order(const Problem& problem);

/// `schedule` in the ids of the given problem.
[[nodiscard]] std::vector<OpId> in_original_ids(const OrderedProblem& ordered,
                                                const std::vector<OpId>& schedule);

}  // namespace snug::plan
