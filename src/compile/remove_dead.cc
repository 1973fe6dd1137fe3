// SPDX-License-Identifier: Apache-2.0
#include "compile/remove_dead.h"

#include <algorithm>
#include <utility>

#include "compile/rewriter.h"

namespace snug::compile {

Graph remove_dead(Graph graph, const OpRegistry& registry) {
  IdVector<ValueId, bool> is_read(graph.values.size(), false);  // by a node that is needed
  IdVector<NodeId, bool> is_needed(graph.nodes.size(), false);
  for (ValueId id : graph.outputs) is_read[id] = true;
  for (const NodeId at : graph.nodes.ids().backwards()) {
    stop_point();
    const Node& node = graph.nodes[at];
    is_needed[at] = node.op->alias->kind == AliasKind::must_overwrite ||
                    std::any_of(node.outputs.begin(), node.outputs.end(),
                                [&](ValueId id) { return is_read[id]; });
    if (!is_needed[at]) continue;
    for (ValueId id : node.inputs) {
      if (id != kNone) is_read[id] = true;
    }
  }
  Rewriter rewriter(std::move(graph), registry);
  rewriter.for_each_node([&](Node& node, NodeId id) {
    if (is_needed[id]) rewriter.keep(node);
  });
  return rewriter.take();
}

}  // namespace snug::compile
