// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

namespace snug {

ValueId Graph::find(const std::string& wanted) const {
  for (const ValueId id : values.ids()) {
    if (values[id].name == wanted) return id;
  }
  return kNone;
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

}  // namespace snug
