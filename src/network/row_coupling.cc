// SPDX-License-Identifier: Apache-2.0
// Follows the rows of a batch from the inputs through the ops (OpDef::row_flow).
#include <algorithm>

#include "base/id_vector.h"
#include "network/facts.h"

namespace snug {
namespace {

struct Flow {
  IdVector<int> axis;              // by value
  IdVector<std::string> coupling;  // by value: the op that coupled its rows
};

void follow(const Graph& graph, const Node& node, NodeId id, int64_t rows, Flow& flow) {
  std::vector<int> axes;
  bool has_rows = false;
  const auto set = [&](int axis, const std::string& coupling) {
    for (const ValueId output : node.outputs) {
      flow.axis[output] = axis;
      flow.coupling[output] = coupling;
    }
  };
  for (const ValueId input : node.inputs) {
    const int axis = input == kNone ? kNoRows : flow.axis[input];
    if (axis == kCoupledRows) return set(axis, flow.coupling[input]);
    has_rows |= axis >= 0;
    axes.push_back(axis);
  }
  if (!has_rows) return;
  const InputTypes inputs = input_types(graph, node);
  const std::vector<TensorType> outputs = output_types(graph, node);
  const RowFlowFn rule = node.op->row_flow;
  const int axis = rule == nullptr ? kCoupledRows
                                   : rule({.inputs = inputs,
                                           .outputs = outputs,
                                           .axes = axes,
                                           .attrs = node.attrs,
                                           .rows = rows});
  set(axis, axis == kCoupledRows ? describe(graph, id) : std::string());
}

}  // namespace

std::string row_coupling(const Graph& graph, int64_t rows, const std::vector<FedInput>& inputs,
                         const std::vector<ValueId>& values) {
  Flow flow{.axis = IdVector<int>(graph.values.size(), kNoRows),
            .coupling = IdVector<std::string>(graph.values.size())};
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const bool is_fed = std::any_of(inputs.begin(), inputs.end(), [&](const FedInput& input) {
      return graph.values[i].kind == ValueKind::input && input.name == graph.values[i].name;
    });
    if (is_fed) flow.axis[i] = 0;
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    follow(graph, graph.nodes[n], static_cast<NodeId>(n), rows, flow);
  for (const ValueId value : values) {
    if (flow.axis[value] == kCoupledRows) return "couples its rows in " + flow.coupling[value];
    if (flow.axis[value] > 0)
      return "has its rows at axis " + std::to_string(flow.axis[value]) + " of " +
             describe(graph, graph.value(value).producer);
  }
  return {};
}

}  // namespace snug
