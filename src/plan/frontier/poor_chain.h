// SPDX-License-Identifier: Apache-2.0
// Whether a network is a chain to the planner. What goes past many blocks (a long skip, what an
// encoder made, the other tower) the chain's table keeps for the whole step, and a block it takes
// as one piece; a search over the graph (remat.h) sees both, for more time.
#pragma once

#include "plan/frontier/workshop.h"

namespace snug::plan {

/// Whether something as large as what crosses between blocks is carried past a good part of them,
/// or one block of many ops is most of the forward part. False where there are no blocks.
[[nodiscard]] bool is_poor_chain(const Workshop& shop);

}  // namespace snug::plan
