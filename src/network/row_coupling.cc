// SPDX-License-Identifier: Apache-2.0
// Follows the rows of a batch from the inputs through the ops (OpDef::row_flow).
#include <algorithm>
#include <functional>
#include <variant>

#include "base/id_vector.h"
#include "graph/builder.h"
#include "graph/text.h"
#include "network/facts.h"
#include "ops/fed_names.h"

namespace snug::network {
namespace {

struct Flow {
  IdVector<ValueId, int> axis;              // by value
  IdVector<ValueId, std::string> coupling;  // by value: the op that coupled its rows
};

// The axis that has the rows, as many numbers for each; kNoRows where there is none.
int axis_of_rows(const RowProbe& probe, ValueId id) {
  const Shape& here = probe.graph.type(id).shape;
  const Shape& there = probe.other.type(id).shape;
  if (here.size() != there.size()) return kCoupledRows;
  int found = kNoRows;
  for (size_t axis = 0; axis < here.size(); ++axis) {
    if (here[axis] == there[axis]) continue;
    const int64_t each = here[axis] / probe.rows;
    if (found != kNoRows || here[axis] != each * probe.rows ||
        there[axis] != each * probe.other_rows)
      return kCoupledRows;
    found = static_cast<int>(axis);
  }
  return found;
}

// What is made of weights and constants only, and has rows all the same: the same for each row, or
// as many numbers as there are rows, of which a row has others in another micro-batch.
int axis_of_constant(const RowProbe& probe, const Node& node) {
  const int axis = axis_of_rows(probe, node.outputs.front());
  return axis == kNoRows || node.op->repeats ? axis : kCoupledRows;
}

// Whether the node draws by the first row of the micro-batch.
bool draws_by_row(const RowProbe& probe, const Node& node) {
  if (probe.draws == DrawNumbering::building) return false;
  const bool has_key = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
    if (id == kNone || probe.graph.value(id).kind != ValueKind::input) return false;
    const std::string& name = probe.graph.value(id).name;
    return name == kRandomKey || name.starts_with(kOwnKeyPrefix);
  });
  const AttrValue* const axis = attr_of(node, AttrRole::sample);
  const bool draws_once = axis != nullptr && *axis == AttrValue(int64_t{-1});
  return has_key && !draws_once;
}

void follow(const RowProbe& probe, const Node& node, NodeId id, Flow& flow) {
  const Graph& graph = probe.graph;
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
  if (!has_rows && draws_by_row(probe, node))
    return set(kCoupledRows, describe(graph, id) + ", which draws anew for each micro-batch");
  if (!has_rows) {
    const int axis = axis_of_constant(probe, node);
    return set(axis, axis == kCoupledRows ? describe(graph, id) : std::string());
  }
  const InputTypes inputs = input_types(graph, node);
  const std::vector<TensorType> outputs = output_types(graph, node);
  const RowFlowFn rule = node.op->row_flow;
  int axis = rule == nullptr ? kCoupledRows
                             : rule({.inputs = inputs,
                                     .outputs = outputs,
                                     .axes = axes,
                                     .attrs = node.attrs,
                                     .rows = probe.rows});
  // No other size may follow the number of rows.
  if (std::any_of(node.outputs.begin(), node.outputs.end(),
                  [&](ValueId output) { return axis_of_rows(probe, output) != axis; }))
    axis = kCoupledRows;
  set(axis, axis == kCoupledRows ? describe(graph, id) : std::string());
}

// What a type tells. Any other number that follows the rows is one that is computed with.
bool is_shape(const Node& node, const AttrValue& attribute) {
  return &attribute == attr_of(node, AttrRole::shape);
}

// Where the function asks for the number of rows for more than shapes.
std::string other_network(const Graph& graph, const Graph& other) {
  if (graph.nodes.size() != other.nodes.size() || graph.values.size() != other.values.size())
    return "is built of other ops for another number of rows";
  for (const NodeId id : graph.nodes.ids()) {
    if (*graph.nodes[id].op->name != *other.nodes[id].op->name)
      return "is built of other ops for another number of rows: " + describe(graph, id);
    for (const auto& [name, value] : graph.nodes[id].attrs.items()) {
      const AttrValue* const there = other.nodes[id].attrs.find(name);
      if (!is_shape(graph.nodes[id], value) && (there == nullptr || *there != value))
        return "computes with the number of its rows: " + name + " of " + describe(graph, id);
    }
  }
  return {};
}

// Whether the gradient of a caller's op, built as a graph of its own, keeps rows apart: the
// gradient of an input's row must come from the same row of what flows back.
bool keeps_rows_apart(const RowProbe& probe, const Node& of_network, const Flow& flow) {
  const auto* const gradient = std::get_if<VjpFn>(&*of_network.op->gradient);
  if (gradient == nullptr) return true;
  const auto build = [&](const Graph& from) {
    GraphBuilder builder(probe.ops, "gradient");
    std::vector<ValueId> inputs;
    std::vector<ValueId> dy;
    for (const ValueId id : of_network.inputs)
      inputs.push_back(
          id == kNone ? kNone : builder.input("x" + std::to_string(inputs.size()), from.type(id)));
    const std::vector<ValueId> outputs = builder.op(*of_network.op->name, inputs, of_network.attrs);
    for (const ValueId id : outputs)
      dy.push_back(builder.input("dy" + std::to_string(dy.size()), builder.type(id)));
    const Node node = builder.graph().nodes.back();
    const std::vector<bool> wants(inputs.size(), true);
    std::vector<ValueId> found =
        (*gradient)({.builder = builder, .node = node, .dy = dy, .wants = wants});
    return std::pair(builder.take(), std::move(found));
  };
  const auto [here, gradients] = build(probe.graph);
  const auto [there, same] = build(probe.other);
  if (!other_network(here, there).empty()) return false;
  const RowProbe own{.ops = probe.ops,
                     .graph = here,
                     .other = there,
                     .rows = probe.rows,
                     .other_rows = probe.other_rows};
  Flow of_gradient{.axis = IdVector<ValueId, int>(here.values.size(), kNoRows),
                   .coupling = IdVector<ValueId, std::string>(here.values.size())};
  for (const ValueId id : here.values.ids()) {
    if (here.value(id).kind == ValueKind::input) of_gradient.axis[id] = axis_of_rows(own, id);
  }
  for (const NodeId id : here.nodes.ids()) follow(own, here.nodes[id], id, of_gradient);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const ValueId input = of_network.inputs[i];
    if (input == kNone || gradients[i] == kNone || flow.axis[input] < 0) continue;
    if (of_gradient.axis[gradients[i]] != flow.axis[input]) return false;
  }
  return true;
}

}  // namespace

IdVector<NodeId, uint64_t> op_digests(const Graph& graph) {
  IdVector<NodeId, uint64_t> digests;
  digests.reserve(graph.nodes.size());
  const std::hash<std::string> hash;
  for (const Node& node : graph.nodes) {
    std::string text = *node.op->name;
    for (const auto& [name, value] : node.attrs.items()) {
      if (!is_shape(node, value)) text += " " + name + "=" + to_string(value);
    }
    digests.push_back(hash(text));
  }
  return digests;
}

std::string row_coupling(const RowProbe& probe, const std::vector<ValueId>& values) {
  const Graph& graph = probe.graph;
  if (const std::string other = other_network(graph, probe.other); !other.empty()) return other;
  Flow flow{.axis = IdVector<ValueId, int>(graph.values.size(), kNoRows),
            .coupling = IdVector<ValueId, std::string>(graph.values.size())};
  for (const ValueId id : graph.values.ids()) {
    if (graph.value(id).kind != ValueKind::input) continue;
    flow.axis[id] = axis_of_rows(probe, id);
    flow.coupling[id] = "the input '" + graph.value(id).name + "'";
  }
  for (const NodeId id : graph.nodes.ids()) follow(probe, graph.nodes[id], id, flow);
  for (const NodeId id : graph.nodes.ids()) {
    const Node& node = graph.nodes[id];
    if (node.op->callers_kernel == nullptr || !probe.has_gradients) continue;
    if (!keeps_rows_apart(probe, node, flow))
      return "couples its rows in the gradient of " + describe(graph, id);
  }
  for (const ValueId value : values) {
    if (flow.axis[value] == kCoupledRows) return "couples its rows in " + flow.coupling[value];
    if (flow.axis[value] > 0)
      return "has its rows at axis " + std::to_string(flow.axis[value]) + " of " +
             describe(graph, graph.value(value).producer);
  }
  return {};
}

}  // namespace snug::network
