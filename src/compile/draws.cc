// SPDX-License-Identifier: Apache-2.0
#include "compile/draws.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/id_vector.h"
#include "base/index_vector.h"
#include "compile/rewriter.h"
#include "ops/fed_names.h"

namespace snug::compile {
namespace {

bool is_own_key(const Value& value) {
  return value.kind == ValueKind::input && value.name.starts_with(kOwnKeyPrefix);
}

// Nodes behind the outputs, each behind those that make its operands, first operands first; then
// those that no output depends on, as they were built.
std::vector<NodeId> in_operand_order(const Graph& graph) {
  std::vector<NodeId> order;
  IdVector<NodeId, bool> is_seen(graph.nodes.size(), false);
  struct Open {
    NodeId node;
    size_t next_input;
  };
  std::vector<Open> open;
  const auto enter = [&](NodeId node) {
    if (node == kNone || is_seen[node]) return;
    is_seen[node] = true;
    open.push_back({node, 0});
  };
  const auto walk = [&](NodeId from) {
    enter(from);
    while (!open.empty()) {
      Open& top = open.back();
      const IndexVector<ValueId>& inputs = graph.node(top.node).inputs;
      if (top.next_input == inputs.size()) {
        order.push_back(top.node);
        open.pop_back();
        continue;
      }
      const ValueId input = inputs[top.next_input++];
      if (input != kNone) enter(graph.value(input).producer);
    }
  };
  for (const ValueId output : graph.outputs) walk(graph.value(output).producer);
  for (const NodeId id : graph.nodes.ids()) walk(id);
  return order;
}

bool has_ordinal(const Graph& graph, const Node& node) {
  return attr_of(node, AttrRole::ordinal) != nullptr &&
         std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
           return id != kNone &&
                  (graph.value(id).name == kRandomKey || is_own_key(graph.value(id)));
         });
}

// Ordinals below `first` stay. Returns the keys that are read, in the order of their numbers.
std::vector<ValueId> number_ordinals(Graph& graph, int64_t first) {
  std::map<int64_t, int64_t> ordinals;
  std::vector<ValueId> keys;
  for (const NodeId id : in_operand_order(graph)) {
    Node& node = graph.nodes[id];
    for (const ValueId input : node.inputs) {
      if (input != kNone && is_own_key(graph.value(input)) &&
          std::find(keys.begin(), keys.end(), input) == keys.end())
        keys.push_back(input);
    }
    if (!has_ordinal(graph, node) || node.attrs.int64("ordinal") < first) continue;
    const int64_t next = first + static_cast<int64_t>(ordinals.size());
    node.attrs.set("ordinal", ordinals.emplace(node.attrs.int64("ordinal"), next).first->second);
  }
  return keys;
}

}  // namespace

Graph number_draws(Graph graph, DrawNumbering numbering, const OpRegistry& registry) {
  const bool has_key =
      std::any_of(graph.values.begin(), graph.values.end(),
                  [](const Value& value) { return value.name == kRandomKey || is_own_key(value); });
  if (!has_key) return graph;
  std::vector<ValueId> keys;
  if (numbering == DrawNumbering::operands) keys = number_ordinals(graph, 0);
  std::map<ValueId, int64_t> numbers;  // of own keys; those that nothing reads have none
  for (size_t i = 0; i < keys.size(); ++i) numbers[keys[i]] = static_cast<int64_t>(i);
  ValueId first = graph.find(kRandomKey);
  const IdRange values = graph.values.ids();
  Rewriter rewriter(std::move(graph), registry);
  for (const ValueId id : values) {
    if (!is_own_key(rewriter.graph().value(id))) continue;
    const auto number = numbers.find(id);
    const bool is_read = numbering == DrawNumbering::building || number != numbers.end();
    if (is_read && numbering == DrawNumbering::operands && number->second > 0) {
      rewriter.rename(id, kOwnKeyPrefix + std::to_string(number->second));
    } else if (is_read && first == kNone) {
      rewriter.rename(id, kRandomKey);
      first = id;
    } else {
      if (first != kNone) rewriter.replace(id, first);
      rewriter.drop(id);
    }
  }
  rewriter.for_each_node([&](Node& node, NodeId) { rewriter.keep(node); });
  return rewriter.take();
}

int64_t next_ordinal(const Graph& graph) {
  int64_t next = 0;
  for (const Node& node : graph.nodes) {
    if (has_ordinal(graph, node)) next = std::max(next, node.attrs.int64("ordinal") + 1);
  }
  return next;
}

void number_added_draws(Graph& graph, int64_t first) { (void)number_ordinals(graph, first); }

}  // namespace snug::compile
