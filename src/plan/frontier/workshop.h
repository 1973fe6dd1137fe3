// SPDX-License-Identifier: Apache-2.0
// What every strategy of the chain shares for one problem: cross references, blocks and what each
// block may keep.
#pragma once

#include "base/index_vector.h"
#include "plan/chain/block_options.h"
#include "plan/chain/blocks.h"
#include "plan/problem/index.h"
#include "plan/problem/liveness.h"

namespace snug::plan {

/// Refers to the problem, which must outlive it.
struct Workshop {
  explicit Workshop(const Problem& problem, BlockLimits limits = {});
  [[nodiscard]] bool has_chain() const { return !options.empty(); }

  ProblemIndex index;
  LivenessTable table;
  Chain chain;
  IndexVector<BlockOptions> options;  // by block; none where there is no backward part
};

}  // namespace snug::plan
