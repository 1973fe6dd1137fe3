// SPDX-License-Identifier: Apache-2.0
// Random valid graphs over all ops, for property tests.
#pragma once

#include "graph/builder.h"

namespace snug {

/// About `attempts` nodes minus those whose random operands or attributes an op refused; the same
/// graph for a seed.
[[nodiscard]] Graph random_graph(uint64_t seed, int attempts);

}  // namespace snug
