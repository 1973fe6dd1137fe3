// SPDX-License-Identifier: Apache-2.0
#include "plan/frontier/workshop.h"

#include "plan/chain/chain.h"

namespace snug::plan {

Workshop::Workshop(const Problem& problem, BlockLimits limits)
    : index(problem), table(problem), chain(find_blocks(index, limits)) {
  if (index.forward_ids().empty() || index.backward_ids().empty()) return;
  options = block_options(index, chain);
  // A long chain of different blocks: neighbours are merged until the table is short enough.
  while (ChainSolver::least_work(options) > kMaxTableWork) {
    limits.max_blocks = static_cast<int32_t>(chain.blocks.size() + 1) / 2;
    chain = find_blocks(index, limits);
    options = block_options(index, chain);
  }
}

}  // namespace snug::plan
