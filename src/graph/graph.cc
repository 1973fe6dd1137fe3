// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include <numeric>

#include "base/stop.h"
#include "graph/op_def.h"

namespace snug {

ValueId Graph::find(const std::string& wanted) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].name == wanted) return static_cast<ValueId>(i);
  }
  return kNone;
}

const char* to_string(Phase phase) {
  switch (phase) {
    case Phase::prologue:
      return "prologue";
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::update:
      return "update";
  }
  return "?";
}

std::string describe(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const std::string first = node.outputs.empty() ? "_" : std::to_string(node.outputs[0]);
  return "%" + first + " " + (node.scope.empty() ? "" : node.scope.str() + "/") + *node.op->name;
}

InputTypes input_types(const Graph& graph, const Node& node) {
  InputTypes types;
  types.reserve(node.inputs.size());
  for (ValueId id : node.inputs)
    types.add(id == kNone ? std::nullopt : InputTypes::Given(graph.type(id)));
  return types;
}

std::vector<TensorType> output_types(const Graph& graph, const Node& node) {
  std::vector<TensorType> types;
  for (ValueId id : node.outputs) types.push_back(graph.type(id));
  return types;
}

namespace {

// The value in whose place a node's output is, one step back, or kNone.
ValueId source_of(const Graph& graph, const Value& value) {
  if (value.producer == kNone) return kNone;
  const Node& node = graph.node(value.producer);
  const Alias& alias = *node.op->alias;
  if (alias.kind != AliasKind::view && alias.kind != AliasKind::must_overwrite) return kNone;
  ValueId source = kNone;
  for (const auto& [output, input] : alias.pairs) {
    if (output == value.output_index) source = node.inputs[input];
  }
  return source;
}

}  // namespace

ValueId storage_of(const Graph& graph, ValueId id) {
  for (ValueId source = id; source != kNone; source = source_of(graph, graph.value(id)))
    id = source;
  return id;
}

IdVector<ValueId> storages_of(const Graph& graph) {
  IdVector<ValueId> storages(graph.values.size());
  std::iota(storages.begin(), storages.end(), 0);
  for (const Node& node : graph.nodes) {
    stop_point();
    for (const ValueId output : node.outputs) {
      const ValueId source = source_of(graph, graph.value(output));
      if (source != kNone) storages[output] = storages[source];
    }
  }
  return storages;
}

}  // namespace snug
