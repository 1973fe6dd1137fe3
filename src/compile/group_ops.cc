// SPDX-License-Identifier: Apache-2.0
#include "compile/group_ops.h"

#include <algorithm>
#include <utility>

#include "base/stop.h"
#include "base/units.h"
#include "graph/op_def.h"
#include "graph/storage.h"

namespace snug::compile {
namespace {

// What writes its output over an input, as far as graph and op alone decide it. A storage is named
// by the value that owns it.
class Overwriting {
 public:
  Overwriting(const Graph& graph, const Backend& backend)
      : graph_(graph),
        backend_(backend),
        storages_(storages_of(graph)),
        readers_(graph.values.size(), 0) {
    IdVector<ValueId, const Node*> last_reader(graph.values.size(), nullptr);
    for (const Node& node : graph.nodes) {
      stop_point();
      if (node.op->alias->kind == AliasKind::view) continue;
      for (const ValueId input : node.inputs) {
        if (input == kNone) continue;
        const ValueId owner = storage(input);
        if (std::exchange(last_reader[owner], &node) != &node) ++readers_[owner];
      }
    }
    for (const ValueId kept : graph.outputs) ++readers_[storage(kept)];
  }

  [[nodiscard]] ValueId storage(ValueId id) const { return storages_[id]; }

  /// Pairs of output and input to overwrite, of which the node is the only reader. An output or an
  /// input may be in more than one.
  [[nodiscard]] std::vector<std::pair<ValueId, ValueId>> pairs(const Node& node) const {
    std::vector<std::pair<ValueId, ValueId>> found;
    if (node.op->alias->kind != AliasKind::may_overwrite) return found;
    for (const auto& [to, from] : node.op->alias->pairs) {
      if (std::cmp_greater_equal(from, node.inputs.size())) continue;
      const ValueId input = node.inputs[from];
      const ValueId output = node.outputs[to];
      if (input == kNone || !is_alike(input, output)) continue;
      const ValueId place = storage(input);
      if (readers_[place] != 1) continue;
      const auto places = std::count_if(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
        return id != kNone && storage(id) == place;
      });
      if (places == 1) found.emplace_back(output, place);
    }
    return found;
  }

 private:
  [[nodiscard]] bool is_alike(ValueId input, ValueId output) const {
    const ValueId from = storage(input);
    const ValueId to = storage(output);
    return !graph_.is_resident(from) && !graph_.is_resident(to) &&
           graph_.type(input).dtype == graph_.type(output).dtype &&
           element_count(graph_.type(input)) == element_count(graph_.type(output)) &&
           bytes(from) == bytes(to);
  }
  [[nodiscard]] int64_t bytes(ValueId id) const {
    return round_up(backend_.storage_bytes(graph_.type(id)), backend_.alignment());
  }

  const Graph& graph_;
  const Backend& backend_;
  IdVector<ValueId, ValueId> storages_;  // by value
  IdVector<ValueId, int32_t> readers_;   // by storage
};

// A forward node joins the op that makes the input it writes over: what is between them is read by
// nobody else, so no schedule keeps it or makes it by itself. The node moves up to that op, so all
// else that it reads must be there by then.
class Grouping {
 public:
  Grouping(const Graph& graph, const Overwriting& overwriting)
      : graph_(graph),
        overwriting_(overwriting),
        is_marked_(graph.values.size(), false),
        op_of_(graph.nodes.size()) {
    for (const ValueId id : graph.values.ids()) {
      const ValueId owner = overwriting.storage(id);
      const Value& value = graph.values[id];
      if (value.is_marked || (value.kind == ValueKind::computed && !value.name.empty()))
        is_marked_[owner] = true;
    }
    written_over_.assign(graph.values.size(), kNone);
    for (const NodeId id : graph.nodes.ids()) {
      stop_point();
      const Node& node = graph.nodes[id];
      if (node.op->alias->kind == AliasKind::view) continue;
      const plan::OpId op = joined(node);
      if (op != kNone) nodes_[op].push_back(id);
      op_of_[id] = op != kNone ? op : nodes_.add({id});
    }
  }
  IdVector<plan::OpId, std::vector<NodeId>> take_nodes() { return std::move(nodes_); }
  /// The value whose bytes a value has, behind views and what was written over.
  [[nodiscard]] ValueId place_of(ValueId id) const {
    ValueId place = overwriting_.storage(id);
    for (ValueId next = written_over_[place]; next != kNone; next = written_over_[place])
      place = overwriting_.storage(next);
    return place;
  }

 private:
  // The op that the node joins; what it writes over is noted.
  plan::OpId joined(const Node& node) {
    if (node.phase != Phase::forward) return kNone;
    for (const auto& [output, input] : overwriting_.pairs(node)) {
      const NodeId maker = graph_.value(input).producer;
      const plan::OpId op = op_of_[maker];
      const Node& made = graph_.node(maker);
      // What is between two parts, or marked, is kept as it is.
      if (made.parts != node.parts || is_marked_[input]) continue;
      if (made.phase != Phase::forward || made.op->alias->kind == AliasKind::must_overwrite)
        continue;
      if (!std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId id) { return id == kNone || is_there(id, op); }))
        continue;
      written_over_[input] = output;
      return op;
    }
    return kNone;
  }
  // Whether the value can be read right behind the op. A resident one might change in between.
  [[nodiscard]] bool is_there(ValueId id, plan::OpId op) const {
    const ValueId owner = overwriting_.storage(id);
    if (graph_.is_resident(owner))
      return graph_.value(owner).kind != ValueKind::buffer || op + 1 == nodes_.end_id();
    return op_of_[graph_.value(owner).producer] <= op;
  }

  const Graph& graph_;
  const Overwriting& overwriting_;
  IdVector<ValueId, bool> is_marked_;  // by storage: marked, or named and so to be marked by name
  IdVector<plan::OpId, std::vector<NodeId>> nodes_;  // by op
  IdVector<ValueId, ValueId> written_over_;  // by storage: the one that takes its place, or kNone
  IdVector<NodeId, plan::OpId> op_of_;       // by node
};

// The backward part writes over inputs where they are: its ops run once, so that whatever a
// schedule repeats, nobody misses the input.
void add_reuses(const Graph& graph, const Overwriting& overwriting, OpGroups& groups) {
  for (const plan::OpId op : groups.nodes.ids()) {
    stop_point();
    const Node& node = graph.node(groups.nodes[op].front());
    if (node.phase != Phase::backward) continue;
    std::vector<std::pair<ValueId, ValueId>>& reuses = groups.reuses[op];
    for (const auto& [output, input] : overwriting.pairs(node)) {
      const std::pair pair(groups.place_of_value[output], groups.place_of_value[input]);
      const bool is_taken = std::any_of(reuses.begin(), reuses.end(), [&](const auto& other) {
        return other.first == pair.first || other.second == pair.second;
      });
      if (!is_taken) reuses.push_back(pair);
    }
  }
}

}  // namespace

OpGroups group_ops(const Graph& graph, const Backend& backend) {
  OpGroups groups;
  const Overwriting overwriting(graph, backend);
  Grouping grouping(graph, overwriting);
  groups.place_of_value.reserve(graph.values.size());
  for (const ValueId id : graph.values.ids()) {
    stop_point();
    groups.place_of_value.push_back(grouping.place_of(id));
  }
  groups.nodes = grouping.take_nodes();
  groups.reuses.resize(groups.nodes.size());
  add_reuses(graph, overwriting, groups);
  return groups;
}

}  // namespace snug::compile
