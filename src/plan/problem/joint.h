// SPDX-License-Identifier: Apache-2.0
// What a joint graph of forward and backward part may have beside a plain problem: views, ordered
// ops, ops of one part, a boundary.
#pragma once

#include "plan/problem/plan.h"

namespace snug::plan {

/// Whether it has none of them.
[[nodiscard]] bool is_plain(const Problem& problem);

/// The storage in which a view lies; `id` itself where it is no view.
[[nodiscard]] inline StorageId root_of(const Problem& problem, StorageId id) {
  const StorageId base = problem.storages[id].view_of;
  return base == kNone ? id : base;
}

/// It makes views, of a storage that another op makes or that is resident.
[[nodiscard]] bool makes_only_views(const Problem& problem, const Op& op);

/// What is never run in the forward part: tangents and all that follows from them.
[[nodiscard]] inline bool is_of_backward_part(const Op& op) {
  return op.phase == Phase::backward || op.phase == Phase::update || op.part == GraphPart::backward;
}

/// The first listed op behind the boundary: of phase backward or update. The end where there is
/// none.
[[nodiscard]] OpId first_behind_boundary(const Problem& problem);

}  // namespace snug::plan
