// SPDX-License-Identifier: Apache-2.0
#include "compile/split_prologue.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compile/rewriter.h"
#include "graph/op_def.h"

namespace snug {
namespace {

bool is_view(const Node& node) { return node.op->alias->kind == AliasKind::view; }

// What a value is made of, down to the names of weights: equal text, equal bytes.
class Recipes {
 public:
  explicit Recipes(const Graph& graph) : texts_(graph.values.size()) {
    for (size_t i = 0; i < graph.values.size(); ++i) {
      if (graph.values[i].producer == kNone) texts_[i] = graph.values[i].name;
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
  IndexVector<std::string> texts_;  // by value
};

// Which values the nodes that have an effect read; drops the others.
IndexVector<bool> read_by(IndexVector<Node>& nodes, const Graph& graph) {
  IndexVector<bool> is_read(graph.values.size(), false);
  for (const ValueId id : graph.outputs) is_read[id] = true;
  std::vector<bool> is_kept(nodes.size(), true);
  for (size_t i = nodes.size(); i-- > 0;) {
    const Node& node = nodes[i];
    is_kept[i] = !is_view(node) || is_read[node.outputs[0]];
    if (!is_kept[i]) continue;
    for (const ValueId id : node.inputs) {
      if (id != kNone) is_read[id] = true;
    }
  }
  size_t next = 0;
  std::erase_if(nodes, [&](const Node&) { return !is_kept[next++]; });
  return is_read;
}

}  // namespace

WithPrologue split_prologue(Graph graph) {
  const bool has_prologue = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                        [](const Node& n) { return n.phase == Phase::prologue; });
  if (!has_prologue) return {.main = std::move(graph), .prologue = {}};
  Recipes recipes(graph);
  std::map<std::string, ValueId> made;  // by recipe: the first value of it
  IndexVector<ValueId> first(graph.values.size());
  std::iota(first.begin(), first.end(), 0);
  IndexVector<bool> is_taken(graph.values.size(), false);
  IndexVector<Node> main;
  IndexVector<Node> prologue;
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

  const IndexVector<bool> is_read = read_by(main, graph);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (!is_taken[i] || !is_read[i]) continue;
    graph.values[i].kind = ValueKind::cached;
    graph.values[i].name = recipes.of(static_cast<ValueId>(i));
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
  IndexVector<bool> is_used(out.prologue.values.size(), false);
  for (const Node& node : out.prologue.nodes) {
    for (const ValueId id : node.inputs) {
      if (id != kNone) is_used[id] = true;
    }
  }
  // What nobody makes or reads there is no part of it: compact() drops it.
  for (size_t i = 0; i < is_used.size(); ++i) {
    Value& value = out.prologue.values[i];
    if (!is_used[i] && value.kind != ValueKind::cached) value.kind = ValueKind::computed;
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

}  // namespace snug
