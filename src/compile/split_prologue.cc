// SPDX-License-Identifier: Apache-2.0
#include "compile/split_prologue.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compile/rewriter.h"
#include "graph/op_def.h"

namespace snug::compile {
namespace {

bool is_view(const Node& node) { return node.op->alias->kind == AliasKind::view; }

// What a value is made of, down to the names of weights: equal text, equal bytes.
class Recipes {
 public:
  explicit Recipes(const Graph& graph) : texts_(graph.values.size()) {
    for (const ValueId id : graph.values.ids()) {
      if (graph.values[id].producer == kNone) texts_[id] = graph.values[id].name;
    }
  }
  /// Names the outputs of a node, whose inputs are known.
  void add(const Node& node) {
    std::string text = *node.op->name + "(";
    for (size_t i = 0; i < node.inputs.size(); ++i)
      text += (i > 0 ? ", " : "") + (node.inputs[i] == kNone ? "_" : of(node.inputs[i]));
    text += ")";
    std::string attrs;
    for (const auto& [name, value] : node.attrs.items())
      attrs += (attrs.empty() ? " {" : ", ") + name + "=" + to_string(value);
    text += attrs + (attrs.empty() ? "" : "}");
    for (size_t i = 0; i < node.outputs.size(); ++i)
      texts_[node.outputs[i]] =
          text + (node.outputs.size() > 1 ? "." + (*node.op->outputs)[i] : "");
  }
  [[nodiscard]] const std::string& of(ValueId id) const { return texts_[id]; }

 private:
  IdVector<ValueId, std::string> texts_;  // by value
};

// Which values the nodes that have an effect read; drops the others.
IdVector<ValueId, bool> read_by(IdVector<NodeId, Node>& nodes, const Graph& graph) {
  IdVector<ValueId, bool> is_read(graph.values.size(), false);
  for (const ValueId id : graph.outputs) is_read[id] = true;
  IdVector<NodeId, bool> is_kept(nodes.size(), true);
  for (const NodeId at : nodes.ids().backwards()) {
    const Node& node = nodes[at];
    is_kept[at] = !is_view(node) || is_read[node.outputs[0]];
    if (!is_kept[at]) continue;
    for (const ValueId id : node.inputs) {
      if (id != kNone) is_read[id] = true;
    }
  }
  auto kept = is_kept.begin();
  std::erase_if(nodes, [&](const Node&) { return !*kept++; });
  return is_read;
}

}  // namespace

WithPrologue split_prologue(Graph graph) {
  const bool has_prologue = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                        [](const Node& n) { return n.phase == Phase::prologue; });
  if (!has_prologue) return {.main = std::move(graph), .prologue = {}};
  Recipes recipes(graph);
  std::map<std::string, ValueId> made;  // by recipe: the first value of it
  IdVector<ValueId, ValueId> first = graph.values.ids();
  IdVector<ValueId, bool> is_taken(graph.values.size(), false);
  IdVector<NodeId, Node> main;
  IdVector<NodeId, Node> prologue;
  for (Node& node : graph.nodes) {
    for (ValueId& input : node.inputs) {
      if (input != kNone) input = first[input];
    }
    if (node.phase != Phase::prologue) {
      main.push_back(std::move(node));
      continue;
    }
    recipes.add(node);
    bool is_new = false;
    for (const ValueId output : node.outputs) {
      const auto [found, inserted] = made.emplace(recipes.of(output), output);
      first[output] = found->second;
      is_new = is_new || inserted;
      is_taken[output] = inserted && !is_view(node);
    }
    if (!is_new) continue;
    if (is_view(node)) main.push_back(node);
    prologue.push_back(std::move(node));
  }
  for (ValueId& id : graph.outputs) id = first[id];

  const IdVector<ValueId, bool> is_read = read_by(main, graph);
  for (const ValueId id : graph.values.ids()) {
    if (!is_taken[id] || !is_read[id]) continue;
    graph.values[id].kind = ValueKind::cached;
    graph.values[id].name = recipes.of(id);
  }
  WithPrologue out{.main = graph, .prologue = {}};
  out.prologue = std::move(graph);
  out.main.nodes = std::move(main);
  for (Value& value : out.main.values) {
    if (value.kind == ValueKind::cached) value.producer = kNone;
  }
  out.prologue.name = "prologue";
  out.prologue.nodes = std::move(prologue);
  out.prologue.outputs.clear();
  IdVector<ValueId, bool> is_used(out.prologue.values.size(), false);
  for (const Node& node : out.prologue.nodes) {
    for (const ValueId id : node.inputs) {
      if (id != kNone) is_used[id] = true;
    }
  }
  // What nobody makes or reads there is no part of it: compact() drops it.
  for (const ValueId id : is_used.ids()) {
    Value& value = out.prologue.values[id];
    if (!is_used[id] && value.kind != ValueKind::cached) value.kind = ValueKind::computed;
  }
  out.main = compact(std::move(out.main));
  out.prologue = compact(std::move(out.prologue));
  return out;
}

bool reads_prologue(const Graph& graph) {
  return std::any_of(graph.values.begin(), graph.values.end(),
                     [](const Value& value) { return value.kind == ValueKind::cached; });
}

bool makes_all(const Graph& prologue, const Graph& program) {
  std::set<std::string> made;
  for (const Value& value : prologue.values) {
    if (value.kind == ValueKind::cached) made.insert(value.name);
  }
  return std::all_of(program.values.begin(), program.values.end(), [&](const Value& value) {
    return value.kind != ValueKind::cached || made.contains(value.name);
  });
}

}  // namespace snug::compile
