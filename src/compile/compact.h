// SPDX-License-Identifier: Apache-2.0
// Puts a rewritten graph in order again: drops values that no node makes any more and renumbers the
// rest in order of appearance, so that the text form can be printed and parsed. Every pass ends
// with it. O(nodes + values).
#pragma once

#include "graph/graph.h"

namespace snug {

/// `graph.nodes` must be in a valid order; producers and output indices are taken from the nodes.
[[nodiscard]] Graph compact(Graph graph);

}  // namespace snug
