// SPDX-License-Identifier: Apache-2.0
// From the groups of a graph (group_ops.h) to the planner's problem: one storage for each value
// that owns bytes, one op for each group of nodes, with what its kernels take.
#pragma once

#include "compile/fusion_levels.h"
#include "compile/group_ops.h"
#include "runtime/lowered.h"

namespace snug::compile {

struct LowerOptions {
  /// How many such programs are one batch. Whether operands come from memory is decided for the
  /// batch in one piece, as if its pieces found nothing in a cache that the whole does not:
  /// measured, they gain nothing.
  int64_t pieces = 1;
  FusionLevels fusion = {};  // what may be in row programs (plan::Op::rowwise)
};

/// Selects a kernel for every node; throws what Backend::select throws.
[[nodiscard]] runtime::Lowered lower_groups(const Graph& graph, OpGroups groups,
                                            const Backend& backend, const LowerOptions& options);

}  // namespace snug::compile
