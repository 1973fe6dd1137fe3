// SPDX-License-Identifier: Apache-2.0
#include "compile/fuse_accumulate.h"

#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/stop.h"
#include "compile/rewriter.h"
#include "graph/dependence.h"

namespace snug::compile {
namespace {

/// The accumulating form of `producer`, or a node without op where it has none.
Node accumulating_form(const Graph& graph, const Node& producer, const Node& accumulate,
                       const OpRegistry& registry) {
  Node fused = accumulate;
  fused.op = nullptr;
  if (producer.op->accumulating_form == nullptr) return fused;
  fused.inputs = {accumulate.inputs[0]};
  for (const ValueId id : producer.inputs) {
    if (id != kNone) fused.inputs.push_back(id);
  }
  const auto form = producer.op->accumulating_form(input_types(graph, producer), producer.attrs);
  if (!form) return fused;
  fused.op = registry.find(form->op);
  SNUG_CHECK(fused.op != nullptr, "no op " + form->op);
  fused.attrs = complete_attrs(*fused.op, form->attrs, *fused.op->name);
  return fused;
}

}  // namespace

Graph fuse_accumulate(Graph graph, const OpRegistry& registry) {
  const IdVector<ValueId, int> readers = count_readers(graph);
  IdVector<NodeId, bool> is_absorbed(graph.nodes.size(), false);
  std::map<NodeId, Node> fused;  // what stands for an accumulation
  for (const NodeId id : graph.nodes.ids()) {
    stop_point();
    const Node& node = graph.nodes[id];
    if (!node.op->is_accumulation) continue;
    const ValueId gradient = node.inputs[1];
    const NodeId producer = graph.value(gradient).producer;
    if (producer == kNone || readers[gradient] != 1) continue;
    Node form = accumulating_form(graph, graph.node(producer), node, registry);
    if (form.op == nullptr) continue;
    fused.emplace(id, std::move(form));
    is_absorbed[producer] = true;
  }
  Rewriter rewriter(std::move(graph), registry);
  rewriter.for_each_node([&](Node& node, NodeId id) {
    if (is_absorbed[id]) return;
    const auto found = fused.find(id);
    rewriter.keep(found == fused.end() ? node : found->second);
  });
  return rewriter.take();
}

}  // namespace snug::compile
