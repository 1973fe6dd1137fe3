// SPDX-License-Identifier: Apache-2.0
#include "compile/compact.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "base/stop.h"
#include "graph/op_def.h"

namespace snug {

Graph compact(Graph graph) {
  Graph out;
  out.name = std::move(graph.name);
  out.values.reserve(graph.values.size());
  out.nodes.reserve(graph.nodes.size());
  IdVector<ValueId> renamed(graph.values.size(), kNone);
  IdVector<bool> is_made(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    for (const ValueId id : node.outputs) is_made[id] = true;
  }
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (is_made[i] || graph.values[i].kind == ValueKind::computed) continue;
    renamed[i] = static_cast<ValueId>(out.values.size());
    out.values.push_back(std::move(graph.values[i]));
  }
  for (Node& node : graph.nodes) {
    stop_point();
    Node moved = std::move(node);
    for (ValueId& input : moved.inputs) {
      if (input == kNone) continue;
      input = renamed[input];
      SNUG_CHECK(input != kNone, *moved.op->name + " reads a value that is not made before it");
    }
    for (size_t k = 0; k < moved.outputs.size(); ++k) {
      Value value = std::move(graph.values[moved.outputs[k]]);
      value.producer = static_cast<NodeId>(out.nodes.size());
      value.output_index = static_cast<int32_t>(k);
      const auto id = static_cast<ValueId>(out.values.size());
      renamed[moved.outputs[k]] = id;
      moved.outputs[k] = id;
      out.values.push_back(std::move(value));
    }
    out.nodes.push_back(std::move(moved));
  }
  for (ValueId id : graph.outputs) out.outputs.push_back(renamed[id]);
  return out;
}

}  // namespace snug
