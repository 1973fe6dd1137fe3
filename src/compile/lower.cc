// SPDX-License-Identifier: Apache-2.0
#include "compile/lower.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/numbers.h"
#include "base/row_form.h"
#include "base/stop.h"
#include "base/units.h"
#include "graph/node_classes.h"
#include "graph/op_def.h"
#include "graph/text.h"

namespace snug::compile {

using runtime::Lowered;

namespace {

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
  return scoped_name(node) + (node.outputs.size() > 1 ? "." + output : "");
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
  IdVector<plan::StorageId, int32_t> list_of_;  // the last that the storage was added to
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
  uint64_t text_hash = 0;        // of `text` only
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

// The bytes of everything that a node reads or writes, each place once, for the batch in one piece.
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

// Sums in one place, one after the other. What a sum in memory takes by itself is the way of its
// operands; behind the first of a kernel it is in the caches.
plan::Fusion fusion_of(const Node& node, const NodeKind& kind, const Lowered& lowered) {
  const KernelChoice::Fused& fused = kind.choice.fused;
  const bool is_sum = node.op->alias->kind == AliasKind::must_overwrite && node.outputs.size() == 1;
  if (!is_sum || fused.most < 2 || fused.seconds >= kind.seconds) return {};
  const plan::StorageId sum = lowered.storage_of_value[node.outputs[0]];
  const uint64_t hash = hash_text(kind.signature + " onto " + to_string(sum));
  return {.kind = std::max<uint64_t>(hash, 1),
          .most = fused.most,
          .seconds = fused.seconds,
          .scratch_bytes = round_up(fused.scratch_bytes, lowered.problem.alignment)};
}

// How the last nodes of an op are computed by rows, and how many they are.
struct ByRows {
  plan::RowwiseOp op = {};
  int32_t nodes = 0;
  double saved_seconds = 0;  // since they hand on what is in a cache
};

std::vector<int64_t> keys_of(const std::vector<ValueId>& values, const Lowered& lowered) {
  std::vector<int64_t> keys;
  for (const ValueId id : values)
    keys.push_back(id == kNone ? -1 : lowered.storage_of_value[id].number());
  return keys;
}

// Nodes from `first` on; nothing where they are not computed by rows together.
std::optional<ByRows> rows_from(const Graph& graph, std::span<const NodeId> nodes, size_t first,
                                const plan::Op& op, const Lowered& lowered, int64_t pieces,
                                Workbench& bench) {
  ByRows found{.nodes = static_cast<int32_t>(nodes.size() - first)};
  RowProgram program;
  std::set<int64_t> near;
  for (const NodeId id : nodes.subspan(first)) {
    const Node& node = graph.node(id);
    const NodeKind& kind = bench.kinds.of(id, operand_bytes(node, lowered, pieces, bench));
    const RowwiseForm& form = kind.choice.row_form;
    const std::vector<int64_t> inputs = keys_of(node.inputs, lowered);
    const std::vector<int64_t> outputs = keys_of(node.outputs, lowered);
    if (!program.add(form, inputs, outputs)) return std::nullopt;
    found.op.form.threads = std::max(found.op.form.threads, form.threads);
    found.op.form.scratch_bytes += round_up(form.scratch_bytes, lowered.problem.alignment);
    double bytes = 0;
    double near_bytes = 0;
    const auto count = [&](const std::vector<int64_t>& keys, const std::vector<int64_t>& of_row) {
      for (size_t i = 0; i < keys.size(); ++i) {
        bytes += static_cast<double>(of_row[i]);
        if (of_row[i] > 0 && !near.insert(keys[i]).second)
          near_bytes += static_cast<double>(of_row[i]);
      }
    };
    count(inputs, form.inputs);
    count(outputs, form.outputs);
    const double held = kind.choice.seconds - kind.choice.saved_seconds;
    const double most = std::max(0.0, kind.seconds - held);
    const double saved = bytes > 0 ? most * near_bytes / bytes : 0;
    found.saved_seconds += saved;
    found.op.saved_seconds += most - saved;
  }
  found.op.form.grid = program.grid();
  found.op.has_head = first > 0;
  for (const plan::StorageId input : op.inputs)
    found.op.form.inputs.push_back(program.row_bytes(input.number()));
  for (const plan::StorageId output : op.outputs)
    found.op.form.outputs.push_back(program.row_bytes(output.number()));
  return found;
}

// As many of the last nodes as can be: those of one op write over what the ones before made.
ByRows rows_of(const Graph& graph, std::span<const NodeId> nodes, const plan::Op& op,
               const Lowered& lowered, const LowerOptions& options, Workbench& bench) {
  const auto is_resident = [&](plan::StorageId id) {
    return lowered.problem.storages[id].resident;
  };
  if (std::any_of(op.outputs.begin(), op.outputs.end(), is_resident)) return {};
  const auto level_of = [&](NodeId id) { return options.fusion.level_of(graph.node(id)); };
  size_t first = nodes.size();
  while (first > 0 && level_of(nodes[first - 1]) != FusionLevel::off) --first;
  for (; first < nodes.size(); ++first) {
    auto found = rows_from(graph, nodes, first, op, lowered, options.pieces, bench);
    if (!found) continue;
    // A product before them runs first, where its level has it in row programs.
    const bool may_follow = std::all_of(nodes.begin(), nodes.end() - found->nodes, [&](NodeId id) {
      const double bytes = operand_bytes(graph.node(id), lowered, options.pieces, bench);
      return bench.kinds.of(id, bytes).choice.row_form.is_given() ||
             level_of(id) == FusionLevel::full;
    });
    return may_follow ? std::move(*found) : ByRows{};
  }
  return {};
}

plan::Op lower_op(const Graph& graph, const std::vector<NodeId>& nodes, const Lowered& lowered,
                  int64_t pieces, Workbench& bench) {
  const Node& first = graph.node(nodes.front());
  plan::Op op{.name = {},
              .scope = first.scope,
              .phase = first.phase,
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
    if (nodes.size() == 1) op.fusion = fusion_of(node, kind, lowered);
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

Lowered lower_groups(const Graph& graph, OpGroups groups, const Backend& backend,
                     const LowerOptions& options) {
  const int64_t pieces = options.pieces;
  Lowered out;
  out.problem.alignment = backend.alignment();
  out.problem.kept_seconds_per_byte = backend.kept_seconds_per_byte();
  const IdVector<ValueId, ValueId>& places = groups.place_of_value;
  out.storage_of_value.resize(graph.values.size());
  for (const ValueId id : graph.values.ids()) {
    stop_point();
    if (places[id] != id) continue;
    out.storage_of_value[id] = out.problem.storages.add(
        {.name = storage_name(graph, id),
         .bytes = round_up(backend.storage_bytes(graph.type(id)), backend.alignment()),
         .resident = graph.is_resident(id)});
  }
  for (const ValueId id : graph.values.ids()) {
    stop_point();
    const ValueId place = places[id];
    out.storage_of_value[id] = out.storage_of_value[place];
    // A view that has a name or a mark is the storage that it looks at.
    plan::Storage& storage = out.problem.storages[out.storage_of_value[id]];
    storage.is_marked = storage.is_marked || graph.values[id].is_marked;
    const bool is_view = place != id && !graph.values[id].name.empty();
    if (is_view && graph.value(place).name.empty()) storage.name = graph.values[id].name;
  }
  out.nodes_of_op = std::move(groups.nodes);
  const size_t storages = out.problem.storages.size();
  double bytes = 0;
  for (const plan::Storage& storage : out.problem.storages) bytes += whole_bytes(storage, pieces);
  Workbench bench{Kinds(graph, backend, backend.share_from_memory(bytes)), UniqueLists(storages),
                  UniqueLists(storages), UniqueLists(storages)};
  double seconds = 0;
  out.problem.ops.reserve(out.nodes_of_op.size());
  std::map<uint64_t, plan::SharedRowwiseOp> rowwise_ops;  // by signature
  for (const std::vector<NodeId>& nodes : out.nodes_of_op) {
    plan::Op op = lower_op(graph, nodes, out, pieces, bench);
    ByRows rows = rows_of(graph, nodes, op, out, options, bench);
    op.rowwise = std::move(rows.op);
    if (runtime::is_program_by_itself(op, rows.nodes) && rows.saved_seconds > 0) {
      op.rowwise.own().apart_seconds = op.seconds;
      op.seconds -= rows.saved_seconds;
    }
    // Equal ones are one in memory.
    plan::SharedRowwiseOp& alike = rowwise_ops[op.signature];
    if (*alike != *op.rowwise) alike = op.rowwise;
    op.rowwise = alike;
    out.nodes_by_rows.push_back(rows.nodes);
    seconds += op.seconds;
    out.problem.ops.push_back(std::move(op));
  }
  out.seconds_uncertainty = seconds > 0 ? bench.uncertain_seconds / seconds : 0;
  bench.read.begin();
  for (const ValueId id : graph.outputs) bench.read.add(out.storage_of_value[id], out.problem.keep);
  for (const plan::OpId op : groups.reuses.ids()) {
    for (const auto& [output, input] : groups.reuses[op])
      out.problem.ops[op].reuses.emplace_back(out.storage_of_value[output],
                                              out.storage_of_value[input]);
  }
  return out;
}

}  // namespace snug::compile
