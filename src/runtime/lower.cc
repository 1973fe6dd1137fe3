// SPDX-License-Identifier: Apache-2.0
#include "runtime/lower.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/check.h"
#include "base/units.h"
#include "graph/op_def.h"

namespace snug {
namespace {

plan::Phase planner_phase(Phase phase) { return static_cast<plan::Phase>(phase); }

// FNV-1a; equal signatures make equal blocks, so the value must not depend on the run.
uint64_t hash_text(const std::string& text) {
  uint64_t hash = 1469598103934665603ull;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

std::string storage_name(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (!value.name.empty()) return value.name;
  const Node& node = graph.node(value.producer);
  const std::string& output = (*node.op->outputs)[static_cast<size_t>(value.output_index)];
  return (node.scope.empty() ? "" : node.scope + "/") + *node.op->name +
         (node.outputs.size() > 1 ? "." + output : "");
}

// Outputs that the backward part writes over an input: the op runs once and is the input's only
// reader, so that whatever a schedule repeats, nobody misses it.
void add_reuses(const Graph& graph, Lowered& lowered) {
  plan::Problem& problem = lowered.problem;
  std::vector<int32_t> readers(problem.storages.size(), 0);
  for (const plan::Op& op : problem.ops) {
    for (const plan::StorageId input : op.inputs) ++readers[static_cast<size_t>(input)];
  }
  for (const plan::StorageId kept : problem.keep) ++readers[static_cast<size_t>(kept)];
  const auto storage = [&](ValueId id) {
    return lowered.storage_of_value[static_cast<size_t>(id)];
  };
  const auto bytes = [&](ValueId id) {
    return problem.storages[static_cast<size_t>(storage(id))].bytes;
  };
  const auto is_resident = [&](ValueId id) {
    return problem.storages[static_cast<size_t>(storage(id))].resident;
  };
  for (size_t i = 0; i < problem.ops.size(); ++i) {
    plan::Op& op = problem.ops[i];
    const Node& node = graph.node(lowered.node_of_op[i]);
    if (node.phase != Phase::backward || node.op->alias->kind != AliasKind::may_overwrite) continue;
    for (const auto& [to, from] : node.op->alias->pairs) {
      const ValueId output = node.outputs[static_cast<size_t>(to)];
      const ValueId input = static_cast<size_t>(from) < node.inputs.size()
                                ? node.inputs[static_cast<size_t>(from)]
                                : kNone;
      if (input == kNone || is_resident(input) || is_resident(output)) continue;
      if (readers[static_cast<size_t>(storage(input))] != 1) continue;
      const auto places = std::count_if(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
        return id != kNone && storage(id) == storage(input);
      });
      const bool is_alike = graph.type(input).dtype == graph.type(output).dtype &&
                            element_count(graph.type(input)) == element_count(graph.type(output)) &&
                            bytes(input) == bytes(output);
      const bool is_taken = std::any_of(op.reuses.begin(), op.reuses.end(), [&](const auto& pair) {
        return pair.first == storage(output) || pair.second == storage(input);
      });
      if (places == 1 && is_alike && !is_taken)
        op.reuses.emplace_back(storage(output), storage(input));
    }
  }
}

}  // namespace

Lowered lower(const Graph& graph, const Backend& backend) {
  Lowered out;
  out.problem.alignment = backend.alignment();
  out.storage_of_value.assign(graph.values.size(), kNone);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const auto id = static_cast<ValueId>(i);
    const ValueId owner = storage_of(graph, id);
    if (owner != id) {
      out.storage_of_value[i] = out.storage_of_value[static_cast<size_t>(owner)];
      continue;
    }
    out.storage_of_value[i] = static_cast<plan::StorageId>(out.problem.storages.size());
    out.problem.storages.push_back(
        {.name = storage_name(graph, id),
         .bytes = round_up(backend.storage_bytes(graph.type(id)), backend.alignment()),
         .resident = graph.is_resident(id)});
  }
  std::map<std::string, KernelChoice> known;  // equal nodes are asked about once
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    const Node& node = graph.node(id);
    if (node.op->alias->kind == AliasKind::view) continue;
    const NodeSpec spec = spec_of(graph, id);
    const std::string signature = signature_of(spec);
    auto found = known.find(signature);
    if (found == known.end()) found = known.emplace(signature, backend.select(spec)).first;
    plan::Op op{.name = *node.op->name,
                .scope = node.scope,
                .phase = planner_phase(node.phase),
                .seconds = found->second.seconds,
                .inputs = {},
                .outputs = {},
                .scratch_bytes = round_up(found->second.scratch_bytes, backend.alignment()),
                .may_recompute = node.phase == Phase::forward &&
                                 node.op->alias->kind != AliasKind::must_overwrite,
                .signature = hash_text(signature)};
    const auto add_unique = [](std::vector<plan::StorageId>& list, plan::StorageId storage) {
      if (std::find(list.begin(), list.end(), storage) == list.end()) list.push_back(storage);
    };
    for (ValueId input : node.inputs) {
      if (input != kNone) add_unique(op.inputs, out.storage_of_value[static_cast<size_t>(input)]);
    }
    for (ValueId output : node.outputs)
      add_unique(op.outputs, out.storage_of_value[static_cast<size_t>(output)]);
    out.problem.ops.push_back(std::move(op));
    out.node_of_op.push_back(id);
    out.choices.push_back(found->second);
  }
  for (ValueId id : graph.outputs) {
    const plan::StorageId storage = out.storage_of_value[static_cast<size_t>(id)];
    if (std::find(out.problem.keep.begin(), out.problem.keep.end(), storage) ==
        out.problem.keep.end()) {
      out.problem.keep.push_back(storage);
    }
  }
  add_reuses(graph, out);
  return out;
}

}  // namespace snug
