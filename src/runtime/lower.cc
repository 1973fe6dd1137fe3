// SPDX-License-Identifier: Apache-2.0
#include "runtime/lower.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/numbers.h"
#include "base/stop.h"
#include "base/units.h"
#include "graph/node_classes.h"
#include "graph/op_def.h"

namespace snug {
namespace {

plan::Phase planner_phase(Phase phase) { return static_cast<plan::Phase>(phase); }

// FNV-1a; equal signatures make equal blocks, so the value must not depend on the run. A text that
// follows another goes on from its hash.
uint64_t hash_text(const std::string& text, uint64_t hash = 1469598103934665603ull) {
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

std::string storage_name(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (!value.name.empty()) return value.name;
  const Node& node = graph.node(value.producer);
  const std::string& output = (*node.op->outputs)[static_cast<size_t>(value.output_index)];
  return (node.scope.empty() ? "" : node.scope.str() + "/") + *node.op->name +
         (node.outputs.size() > 1 ? "." + output : "");
}

// What writes its output over an input, as far as graph and op alone decide it. A storage is named
// by the value that owns it.
class Overwriting {
 public:
  Overwriting(const Graph& graph, const Backend& backend)
      : graph_(graph),
        backend_(backend),
        storages_(storages_of(graph)),
        readers_(graph.values.size(), 0) {
    IdVector<const Node*> last_reader(graph.values.size(), nullptr);
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
  IdVector<ValueId> storages_;  // by value
  IdVector<int32_t> readers_;   // by storage
};

// The nodes of each op of the planner, and the storages that this makes one.
struct Groups {
  IdVector<std::vector<NodeId>> nodes;
  IdVector<ValueId> written_over;  // by storage: the one that takes its place, or kNone
};

// A forward node joins the op that makes the input it writes over: what is between them is read by
// nobody else, so no schedule keeps it or makes it alone. The node moves up to that op, so all else
// that it reads must be there by then.
class Grouping {
 public:
  Grouping(const Graph& graph, const Overwriting& overwriting)
      : graph_(graph),
        overwriting_(overwriting),
        is_marked_(graph.values.size(), false),
        op_of_(graph.nodes.size(), kNone) {
    for (size_t i = 0; i < graph.values.size(); ++i) {
      const ValueId owner = overwriting.storage(static_cast<ValueId>(i));
      const Value& value = graph.values[i];
      if (value.is_marked || (value.kind == ValueKind::computed && !value.name.empty()))
        is_marked_[owner] = true;
    }
    groups_.written_over.assign(graph.values.size(), kNone);
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      stop_point();
      const Node& node = graph.nodes[i];
      if (node.op->alias->kind == AliasKind::view) continue;
      const auto id = static_cast<NodeId>(i);
      const int32_t op = joined(node);
      op_of_[i] = op == kNone ? static_cast<int32_t>(groups_.nodes.size()) : op;
      if (op == kNone) {
        groups_.nodes.push_back({id});
      } else {
        groups_.nodes[op].push_back(id);
      }
    }
  }
  Groups take() { return std::move(groups_); }

 private:
  // The op that the node joins; what it writes over is noted.
  int32_t joined(const Node& node) {
    if (node.phase != Phase::forward) return kNone;
    for (const auto& [output, input] : overwriting_.pairs(node)) {
      const NodeId maker = graph_.value(input).producer;
      const int32_t op = op_of_[maker];
      const Node& made = graph_.node(maker);
      // What is between two parts, or marked, is kept as it is.
      if (made.parts != node.parts || is_marked_[input]) continue;
      if (made.phase != Phase::forward || made.op->alias->kind == AliasKind::must_overwrite)
        continue;
      if (!std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId id) { return id == kNone || is_there(id, op); }))
        continue;
      groups_.written_over[input] = output;
      return op;
    }
    return kNone;
  }
  // Whether the value can be read right behind the op. A resident one might change in between.
  [[nodiscard]] bool is_there(ValueId id, int32_t op) const {
    const ValueId owner = overwriting_.storage(id);
    if (graph_.is_resident(owner))
      return graph_.value(owner).kind != ValueKind::buffer ||
             op + 1 == static_cast<int32_t>(groups_.nodes.size());
    return op_of_[graph_.value(owner).producer] <= op;
  }

  const Graph& graph_;
  const Overwriting& overwriting_;
  IdVector<bool> is_marked_;  // by storage: marked, or named and so to be marked by name
  Groups groups_;
  IdVector<int32_t> op_of_;  // by node
};

// The backward part writes over inputs by `reuses`: its ops run once, so that whatever a schedule
// repeats, nobody misses the input.
void add_reuses(const Graph& graph, const Overwriting& overwriting, Lowered& lowered) {
  for (size_t i = 0; i < lowered.problem.ops.size(); ++i) {
    stop_point();
    const Node& node = graph.node(lowered.nodes_of_op[i].front());
    if (node.phase != Phase::backward) continue;
    auto& reuses = lowered.problem.ops[i].reuses;
    for (const auto& [output, input] : overwriting.pairs(node)) {
      const std::pair pair(lowered.storage_of_value[output], lowered.storage_of_value[input]);
      const bool is_taken = std::any_of(reuses.begin(), reuses.end(), [&](const auto& other) {
        return other.first == pair.first || other.second == pair.second;
      });
      if (!is_taken) reuses.push_back(pair);
    }
  }
}

// Lists of storages in which each stands once, one list after the other. The norm of all gradients
// reads as many as there are weights.
class UniqueLists {
 public:
  explicit UniqueLists(size_t storages) : list_of_(storages, 0) {}
  void begin() { ++list_; }
  void add(plan::StorageId storage, std::vector<plan::StorageId>& list) {
    if (std::exchange(list_of_[storage], list_) != list_) list.push_back(storage);
  }
  [[nodiscard]] bool has(plan::StorageId storage) const { return list_of_[storage] == list_; }

 private:
  IdVector<int32_t> list_of_;  // the last that the storage was added to
  int32_t list_ = 0;
};

// What equal nodes share: it is asked and written once.
struct NodeKind {
  KernelChoice choice;
  std::string signature;
  double share = -1;             // of its operands' way from memory, of the node before
  double seconds = 0;            // with that share, as what follows
  double uncertain_seconds = 0;  // of these
  std::string text = {};         // signature and shares
  uint64_t text_hash = 0;        // of `text` alone
};

class Kinds {
 public:
  Kinds(const Graph& graph, const Backend& backend, double program_share)
      : graph_(graph),
        backend_(backend),
        program_share_(program_share),
        classes_(graph, NeutralAttrs::do_not_count) {}
  const NodeKind& of(NodeId id, double operand_bytes) {
    const size_t number = classes_.class_of(id);
    if (number == kinds_.size()) {
      const NodeSpec spec = spec_of(graph_, id);
      kinds_.push_back({.choice = backend_.select(spec), .signature = signature_of(spec)});
    }
    NodeKind& kind = kinds_[number];
    const double share = backend_.share_from_memory(operand_bytes);
    if (share != kind.share) set_share(kind, share);
    return kind;
  }

 private:
  void set_share(NodeKind& kind, double share) const {
    const KernelChoice& choice = kind.choice;
    const double more = std::max(0.0, choice.far_seconds - choice.seconds);
    const double held = 1 - program_share_;
    kind.share = share;
    kind.seconds = choice.seconds + share * more - held * choice.saved_seconds;
    kind.uncertain_seconds = kind.seconds * choice.uncertainty + std::min(share, 1 - share) * more +
                             std::min(held, 1 - held) * choice.saved_seconds;
    kind.text = kind.signature + " " + fixed_text(share, 6) + " " + fixed_text(program_share_, 6);
    kind.text_hash = hash_text(kind.text);
  }

  const Graph& graph_;
  const Backend& backend_;
  double program_share_;  // of the whole program, what the caches do not hold
  NodeClasses classes_;
  std::vector<NodeKind> kinds_;  // by class
};

// What the lowering of one op after the other shares.
struct Workbench {
  Kinds kinds;
  UniqueLists read;
  UniqueLists made;
  UniqueLists touched;
  std::vector<plan::StorageId> places = {};
  double uncertain_seconds = 0;
};

double whole_bytes(const plan::Storage& storage, int64_t pieces) {
  return static_cast<double>(storage.bytes) *
         (storage.resident ? 1.0 : static_cast<double>(pieces));
}

// Of everything that a node reads or writes, each place once, for the batch in one piece.
double operand_bytes(const Node& node, const Lowered& lowered, int64_t pieces, Workbench& bench) {
  bench.touched.begin();
  bench.places.clear();
  for (const auto* ids : {&node.inputs, &node.outputs}) {
    for (const ValueId id : *ids) {
      if (id == kNone) continue;
      bench.touched.add(lowered.storage_of_value[id], bench.places);
    }
  }
  double bytes = 0;  // a sum of integers: in any order
  for (const plan::StorageId place : bench.places)
    bytes += whole_bytes(lowered.problem.storages[place], pieces);
  return bytes;
}

plan::Op lower_op(const Graph& graph, const std::vector<NodeId>& nodes, const Lowered& lowered,
                  int64_t pieces, Workbench& bench) {
  const Node& first = graph.node(nodes.front());
  plan::Op op{.name = {},
              .scope = first.scope,
              .phase = planner_phase(first.phase),
              .seconds = 0,
              .inputs = {},
              .outputs = {},
              .scratch_bytes = 0,
              .may_recompute = first.phase == Phase::forward,
              .signature = 0,
              .parts = first.parts};
  bench.read.begin();
  bench.made.begin();
  stop_point();
  for (const NodeId id : nodes) {
    const Node& node = graph.node(id);
    const NodeKind& kind = bench.kinds.of(id, operand_bytes(node, lowered, pieces, bench));
    if (!op.name.empty()) op.name += "+";
    op.name += *node.op->name;
    op.seconds += kind.seconds;
    bench.uncertain_seconds += kind.uncertain_seconds;
    op.scratch_bytes =
        std::max(op.scratch_bytes, round_up(kind.choice.scratch_bytes, lowered.problem.alignment));
    op.may_recompute = op.may_recompute && node.op->alias->kind != AliasKind::must_overwrite;
    op.is_expensive = op.is_expensive || node.op->timing.is_expensive;
    op.signature = id == nodes.front() ? kind.text_hash : hash_text(kind.text, op.signature);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNone) continue;
      const plan::StorageId storage = lowered.storage_of_value[node.inputs[i]];
      if (bench.made.has(storage)) {
        op.signature = hash_text(" over " + std::to_string(i), op.signature);
      } else {
        bench.read.add(storage, op.inputs);
      }
    }
    for (const ValueId output : node.outputs)
      bench.made.add(lowered.storage_of_value[output], op.outputs);
  }
  return op;
}

}  // namespace

Lowered lower(const Graph& graph, const Backend& backend, int64_t pieces) {
  Lowered out;
  out.problem.alignment = backend.alignment();
  out.problem.kept_seconds_per_byte = backend.kept_seconds_per_byte();
  const Overwriting overwriting(graph, backend);
  Groups groups = Grouping(graph, overwriting).take();
  const auto place_of = [&](ValueId id) {
    ValueId place = overwriting.storage(id);
    for (ValueId next = groups.written_over[place]; next != kNone;
         next = groups.written_over[place])
      place = overwriting.storage(next);
    return place;
  };
  out.storage_of_value.assign(graph.values.size(), kNone);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    stop_point();
    const auto id = static_cast<ValueId>(i);
    if (place_of(id) != id) continue;
    out.storage_of_value[i] = static_cast<plan::StorageId>(out.problem.storages.size());
    out.problem.storages.push_back(
        {.name = storage_name(graph, id),
         .bytes = round_up(backend.storage_bytes(graph.type(id)), backend.alignment()),
         .resident = graph.is_resident(id)});
  }
  for (size_t i = 0; i < graph.values.size(); ++i) {
    stop_point();
    const ValueId place = place_of(static_cast<ValueId>(i));
    out.storage_of_value[i] = out.storage_of_value[place];
    // A view that has a name or a mark is the storage that it looks at.
    plan::Storage& storage = out.problem.storages[out.storage_of_value[i]];
    storage.is_marked = storage.is_marked || graph.values[i].is_marked;
    const bool is_view = place != static_cast<ValueId>(i) && !graph.values[i].name.empty();
    if (is_view && graph.value(place).name.empty()) storage.name = graph.values[i].name;
  }
  out.nodes_of_op = std::move(groups.nodes);
  const size_t storages = out.problem.storages.size();
  double bytes = 0;
  for (const plan::Storage& storage : out.problem.storages) bytes += whole_bytes(storage, pieces);
  Workbench bench{Kinds(graph, backend, backend.share_from_memory(bytes)), UniqueLists(storages),
                  UniqueLists(storages), UniqueLists(storages)};
  double seconds = 0;
  out.problem.ops.reserve(out.nodes_of_op.size());
  for (const std::vector<NodeId>& nodes : out.nodes_of_op) {
    out.problem.ops.push_back(lower_op(graph, nodes, out, pieces, bench));
    seconds += out.problem.ops.back().seconds;
  }
  out.seconds_uncertainty = seconds > 0 ? bench.uncertain_seconds / seconds : 0;
  bench.read.begin();
  for (const ValueId id : graph.outputs) bench.read.add(out.storage_of_value[id], out.problem.keep);
  add_reuses(graph, overwriting, out);
  return out;
}

}  // namespace snug
