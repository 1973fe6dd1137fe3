// SPDX-License-Identifier: Apache-2.0
#include "graph/dependence.h"

#include <algorithm>

namespace snug {

IdVector<ValueId, bool> sources_of(const Graph& graph, std::span<const ValueId> ends) {
  IdVector<ValueId, bool> is_source(graph.values.size(), false);
  for (const ValueId id : ends) is_source[id] = true;
  for (const NodeId at : graph.nodes.ids().backwards()) {
    const Node& node = graph.nodes[at];
    const bool leads = std::any_of(node.outputs.begin(), node.outputs.end(),
                                   [&](ValueId id) { return is_source[id]; });
    if (!leads) continue;
    for (const ValueId id : node.inputs) {
      if (id != kNone) is_source[id] = true;
    }
  }
  return is_source;
}

IdVector<ValueId, int> count_readers(const Graph& graph) {
  IdVector<ValueId, int> readers(graph.values.size(), 0);
  for (const Node& node : graph.nodes) {
    for (const ValueId id : node.inputs) {
      if (id != kNone) ++readers[id];
    }
  }
  for (const ValueId id : graph.outputs) ++readers[id];
  return readers;
}

}  // namespace snug
