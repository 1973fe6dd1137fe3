// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"

#include "graph/op_def.h"

namespace snug {

NodeSpec spec_of(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  NodeSpec spec{.op = node.op,
                .inputs = input_types(graph, node),
                .present = {},
                .outputs = output_types(graph, node),
                .attrs = node.attrs};
  for (ValueId input : node.inputs) spec.present.push_back(input != kNone);
  return spec;
}

std::string signature_of(const NodeSpec& spec) {
  std::string text = *spec.op->name + "(";
  for (size_t i = 0; i < spec.inputs.size(); ++i)
    text += (i ? "," : "") + (spec.present[i] ? to_string(spec.inputs[i]) : "_");
  text += ")";
  for (const auto& [name, value] : spec.attrs.items()) {
    if (name != "ordinal") text += " " + name + "=" + to_string(value);
  }
  text += " ->";
  for (const TensorType& type : spec.outputs) text += " " + to_string(type);
  return text;
}

}  // namespace snug
