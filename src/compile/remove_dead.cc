// SPDX-License-Identifier: Apache-2.0
#include "compile/remove_dead.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/stop.h"
#include "compile/compact.h"
#include "graph/op_def.h"

namespace snug {

Graph remove_dead(Graph graph) {
  IdVector<bool> is_read(graph.values.size(), false);
  for (ValueId id : graph.outputs) is_read[id] = true;
  IdVector<Node> kept;
  kept.reserve(graph.nodes.size());
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    stop_point();
    Node& node = graph.nodes[i];
    const bool is_needed = node.op->alias->kind == AliasKind::must_overwrite ||
                           std::any_of(node.outputs.begin(), node.outputs.end(),
                                       [&](ValueId id) { return is_read[id]; });
    if (!is_needed) continue;
    for (ValueId id : node.inputs) {
      if (id != kNone) is_read[id] = true;
    }
    kept.push_back(std::move(node));
  }
  std::reverse(kept.begin(), kept.end());
  graph.nodes = std::move(kept);
  return compact(std::move(graph));
}

}  // namespace snug
