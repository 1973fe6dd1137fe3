// SPDX-License-Identifier: Apache-2.0
#include "passes/compact.h"

#include <vector>

#include "base/check.h"
#include "graph/op_def.h"

namespace snug {

Graph compact(const Graph& graph) {
  Graph out;
  out.name = graph.name;
  std::vector<ValueId> renamed(graph.values.size(), kNone);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].kind == ValueKind::computed) continue;
    renamed[i] = static_cast<ValueId>(out.values.size());
    out.values.push_back(graph.values[i]);
  }
  for (const Node& node : graph.nodes) {
    Node copy = node;
    for (ValueId& input : copy.inputs) {
      if (input == kNone) continue;
      input = renamed[static_cast<size_t>(input)];
      SNUG_CHECK(input != kNone, *node.op->name + " reads a value that is not made before it");
    }
    for (size_t k = 0; k < copy.outputs.size(); ++k) {
      Value value = graph.value(copy.outputs[k]);
      value.producer = static_cast<NodeId>(out.nodes.size());
      value.output_index = static_cast<int32_t>(k);
      const auto id = static_cast<ValueId>(out.values.size());
      renamed[static_cast<size_t>(copy.outputs[k])] = id;
      copy.outputs[k] = id;
      out.values.push_back(std::move(value));
    }
    out.nodes.push_back(std::move(copy));
  }
  for (ValueId id : graph.outputs) out.outputs.push_back(renamed[static_cast<size_t>(id)]);
  return out;
}

}  // namespace snug
