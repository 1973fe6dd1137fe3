// SPDX-License-Identifier: Apache-2.0
#include "graph/dependence.h"

#include <algorithm>

namespace snug {

IndexVector<bool> sources_of(const Graph& graph, std::span<const ValueId> ends) {
  IndexVector<bool> is_source(graph.values.size(), false);
  for (const ValueId id : ends) is_source[id] = true;
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    const bool leads = std::any_of(node.outputs.begin(), node.outputs.end(),
                                   [&](ValueId id) { return is_source[id]; });
    if (!leads) continue;
    for (const ValueId id : node.inputs) {
      if (id != kNone) is_source[id] = true;
    }
  }
  return is_source;
}

}  // namespace snug
