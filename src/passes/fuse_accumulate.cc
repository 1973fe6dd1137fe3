// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse_accumulate.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "passes/compact.h"

namespace snug {
namespace {

/// The accumulating form of `producer`, or a node without op where it has none.
Node accumulating_form(const Graph& graph, const Node& producer, const Node& accumulate,
                       const OpRegistry& registry) {
  Node fused = accumulate;
  fused.op = nullptr;
  const std::string& name = *producer.op->name;
  if (name == "matmul") {
    const bool is_plain = producer.inputs[2] == kNone &&
                          graph.type(producer.inputs[0]).shape.size() == 2 &&
                          graph.type(producer.inputs[1]).shape.size() == 2;
    if (!is_plain) return fused;
    fused.op = registry.find("matmul_accumulate");
    fused.inputs = {accumulate.inputs[0], producer.inputs[0], producer.inputs[1]};
    fused.attrs = producer.attrs;
  } else if (name == "embedding_grad") {
    fused.op = registry.find("embedding_grad_accumulate");
    fused.inputs = {accumulate.inputs[0], producer.inputs[0], producer.inputs[1]};
    fused.attrs = {};
  }
  if (fused.op != nullptr) fused.attrs = complete_attrs(*fused.op, fused.attrs, *fused.op->name);
  return fused;
}

}  // namespace

Graph fuse_accumulate(Graph graph, const OpRegistry& registry) {
  std::vector<int> readers(graph.values.size(), 0);
  for (const Node& node : graph.nodes) {
    for (ValueId id : node.inputs) {
      if (id != kNone) ++readers[static_cast<size_t>(id)];
    }
  }
  for (ValueId id : graph.outputs) ++readers[static_cast<size_t>(id)];
  std::vector<bool> is_absorbed(graph.nodes.size(), false);
  for (Node& node : graph.nodes) {
    if (*node.op->name != "accumulate") continue;
    const ValueId gradient = node.inputs[1];
    const NodeId producer = graph.value(gradient).producer;
    if (producer == kNone || readers[static_cast<size_t>(gradient)] != 1) continue;
    Node fused = accumulating_form(graph, graph.node(producer), node, registry);
    if (fused.op == nullptr) continue;
    node = std::move(fused);
    is_absorbed[static_cast<size_t>(producer)] = true;
  }
  std::vector<Node> kept;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!is_absorbed[i]) kept.push_back(std::move(graph.nodes[i]));
  }
  graph.nodes = std::move(kept);
  return compact(std::move(graph));
}

}  // namespace snug
