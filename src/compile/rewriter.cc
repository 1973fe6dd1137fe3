// SPDX-License-Identifier: Apache-2.0
#include "compile/rewriter.h"

#include <algorithm>

#include "base/check.h"
#include "graph/text.h"

namespace snug::compile {

Rewriter::Rewriter(Graph graph, const OpRegistry& registry)
    : GraphBuilder(registry, std::move(graph)) {
  before_ = std::exchange(changed_graph().nodes, {});
  changed_graph().nodes.reserve(before_.size());
}

ValueId Rewriter::now(ValueId value) const {
  while (replaced_.has(value) && replaced_[value] != kNone) value = replaced_[value];
  return value;
}

void Rewriter::hand_over(Node& node) {
  if (!replaced_.empty()) {
    for (ValueId& input : node.inputs) input = now(input);
  }
  set_scope(node.scope);
  set_parts(node.parts);
  set_phase(node.phase);
}

void Rewriter::leave() {
  set_scope({});
  set_parts({});
  set_phase(Phase::forward);
}

void Rewriter::keep(Node& node) {
  Graph& graph = changed_graph();
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    Value& output = graph.values[node.outputs[i]];
    output.producer = graph.nodes.end_id();
    output.output_index = static_cast<int32_t>(i);
  }
  graph.nodes.push_back(std::move(node));
}

void Rewriter::keep_retyped(Node& handed) {
  Graph& graph = changed_graph();
  const NodeId id = graph.nodes.end_id();
  keep(handed);
  const Node& node = graph.node(id);
  const std::vector<TensorType> types =
      infer_types(*node.op, input_types(graph, node), node.attrs, describe(graph, id));
  SNUG_CHECK(types.size() == node.outputs.size(), *node.op->name);
  for (size_t i = 0; i < types.size(); ++i) graph.values[node.outputs[i]].type = types[i];
}

void Rewriter::replace(ValueId value, ValueId by) {
  SNUG_CHECK(now(by) != value, "a value that replaces itself");
  if (!replaced_.has(value)) replaced_.resize(graph().values.size(), kNone);
  replaced_[value] = by;
  Value& from = changed_graph().values[value];
  Value& to = changed_graph().values[by];
  if (from.kind != ValueKind::computed || to.kind != ValueKind::computed) return;
  to.is_marked = to.is_marked || std::exchange(from.is_marked, false);
  if (to.name.empty()) to.name = std::exchange(from.name, {});
}

void Rewriter::replace_output(ValueId value, ValueId by) {
  Graph& graph = changed_graph();
  std::replace(graph.outputs.begin(), graph.outputs.end(), value, by);
  graph.values[by].name = std::exchange(graph.values[value].name, {});
}

// compact() drops what is neither resident nor made.
void Rewriter::drop(ValueId resident) {
  changed_graph().values[resident].kind = ValueKind::computed;
  changed_graph().values[resident].producer = kNone;
}

Graph Rewriter::take() {
  for (ValueId& output : changed_graph().outputs) output = now(output);
  return compact(GraphBuilder::take());
}

Graph compact(Graph graph) {
  Graph out;
  out.name = std::move(graph.name);
  out.values.reserve(graph.values.size());
  out.nodes.reserve(graph.nodes.size());
  IdVector<ValueId, ValueId> renamed(graph.values.size(), kNone);
  IdVector<ValueId, bool> is_made(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    for (const ValueId id : node.outputs) is_made[id] = true;
  }
  for (const ValueId id : graph.values.ids()) {
    if (is_made[id] || graph.values[id].kind == ValueKind::computed) continue;
    renamed[id] = out.values.add(std::move(graph.values[id]));
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
      value.producer = out.nodes.end_id();
      value.output_index = static_cast<int32_t>(k);
      const ValueId id = out.values.add(std::move(value));
      renamed[moved.outputs[k]] = id;
      moved.outputs[k] = id;
    }
    out.nodes.push_back(std::move(moved));
  }
  for (ValueId id : graph.outputs) out.outputs.push_back(renamed[id]);
  return out;
}

}  // namespace snug::compile
