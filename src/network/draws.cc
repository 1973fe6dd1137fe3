// SPDX-License-Identifier: Apache-2.0
// Draws of values without rows: the same for all micro-batches of an update.
#include <algorithm>
#include <utility>

#include "base/id_vector.h"
#include "network/facts.h"

namespace snug::network {
namespace {

// By value: whether a value that is fed is behind it. The key of random numbers is none: it has the
// first row of a micro-batch, which is what a draw must not follow here.
IdVector<ValueId, bool> fed_values(const Graph& graph) {
  IdVector<ValueId, bool> is_fed(graph.values.size(), false);
  for (const ValueId id : graph.values.ids()) {
    const Value& value = graph.values[id];
    is_fed[id] = value.kind == ValueKind::input && value.type.dtype != DType::i64;
  }
  for (const Node& node : graph.nodes) {
    const bool is_any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                    [&](ValueId id) { return id != kNone && is_fed[id]; });
    for (const ValueId output : node.outputs) is_fed[output] = is_any;
  }
  return is_fed;
}

// Dropout by row of what is made of weights and constants only.
std::vector<NodeId> draws_of_constants(const Graph& graph) {
  std::vector<NodeId> found;
  const auto draws_by_row = [](const Node& node) {
    const AttrValue* const axis = attr_of(node, AttrRole::sample);
    return axis != nullptr && *axis == AttrValue(int64_t{0});
  };
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), draws_by_row)) return found;
  const IdVector<ValueId, bool> is_fed = fed_values(graph);
  for (const NodeId id : graph.nodes.ids()) {
    if (draws_by_row(graph.nodes[id]) && !is_fed[graph.nodes[id].inputs[0]]) found.push_back(id);
  }
  return found;
}

}  // namespace

void draw_once_for_all_rows(const Network& network, const OpRegistry& ops,
                            const compile::BuildRequest& request, GraphBuilder& graph) {
  const std::vector<NodeId> draws = draws_of_constants(graph.graph());
  if (draws.empty()) return;
  compile::BuildRequest other_request = request;
  ++other_request.rows;
  GraphBuilder builder(ops, network.name());
  NetworkFacts unused;
  (void)build_network(network, builder, other_request, unused);
  const Graph other = builder.take();
  Graph changed = graph.take();
  // Another network for another number of rows is not split, so that nothing follows a split.
  if (other.nodes.size() == changed.nodes.size()) {
    for (const NodeId id : draws) {
      Node& node = changed.nodes[id];
      // A constant that has as many rows as the batch has a mask for each.
      if (other.type(other.node(id).outputs[0]) == changed.type(node.outputs[0]))
        node.attrs.set("sample_axis", int64_t{-1});
    }
  }
  graph = GraphBuilder(ops, std::move(changed));
}

}  // namespace snug::network
