// SPDX-License-Identifier: Apache-2.0
// Finds what counts the places that fill shorter rows up: a mean over an axis that follows a length
// is another one in another program, and so is a number that does. Sums are not looked at, since a
// mask may have made what is filled up 0.
#include <fmt/format.h>

#include "graph/dependence.h"
#include "network/facts.h"

namespace snug {
namespace {

// Elements that one of the output is the mean of.
int64_t summands_of(const Graph& graph, const Node& node) {
  return element_count(graph.type(node.inputs[0])) / element_count(graph.type(node.outputs[0]));
}

bool is_same_op(const Node& a, const Node& b) {
  return *a.op->name == *b.op->name && a.inputs.size() == b.inputs.size();
}

}  // namespace

std::string padded_mean(const Graph& graph, const Graph& shorter) {
  if (graph.nodes.size() != shorter.nodes.size()) return {};
  const IdVector<bool> is_used = sources_of(graph, graph.outputs);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const Node& there = shorter.nodes[n];
    if (!is_same_op(node, there)) return {};
    if (!is_used[node.outputs[0]]) continue;
    const std::string name = describe(graph, static_cast<NodeId>(n));
    if (*node.op->name == "reduce_mean") {
      const int64_t here = summands_of(graph, node);
      const int64_t other = summands_of(shorter, there);
      if (here != other)
        return fmt::format("{} is the mean of {} values, and of {}", name, here, other);
    }
    for (const auto& [attribute, value] : node.attrs.items()) {
      const AttrValue* const other = there.attrs.find(attribute);
      if (kind_of(value) == AttrKind::real && other != nullptr && *other != value)
        return fmt::format("{} of {} is {}, and {}", attribute, name, to_string(value),
                           to_string(*other));
    }
  }
  return {};
}

}  // namespace snug
