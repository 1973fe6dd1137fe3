// SPDX-License-Identifier: Apache-2.0
#include "graph/verify.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/stop.h"
#include "graph/op_def.h"
#include "snug/error.h"

namespace snug {
namespace {

[[noreturn]] void fail(const std::string& where, const std::string& message) {
  throw Error(ErrorCode::invalid_graph, where, message);
}

void verify_values(const Graph& graph) {
  std::unordered_set<std::string_view> names;
  for (const ValueId id : graph.values.ids()) {
    stop_point();
    const Value& value = graph.values[id];
    const auto fail_here = [id](const std::string& message) { fail("%" + to_string(id), message); };
    if (!value.name.empty() && !names.insert(value.name).second)
      fail_here("the name '" + value.name + "' is used twice");
    const bool may_be_made = value.kind == ValueKind::computed || value.kind == ValueKind::cached;
    if (value.producer == kNone ? value.kind == ValueKind::computed : !may_be_made)
      fail_here("kind and producer disagree");
    if (value.kind != ValueKind::computed && value.name.empty())
      fail_here("a resident value needs a name");
    if (value.producer == kNone) continue;
    if (!graph.nodes.has(value.producer)) fail_here("no such producer");
    const Node& node = graph.node(value.producer);
    const int32_t index = value.output_index;
    if (index < 0 || std::cmp_greater_equal(index, node.outputs.size()) ||
        node.outputs[index] != id)
      fail_here("its producer does not list it");
  }
}

// The same attributes that complete_attrs would give, without a copy of them.
bool has_complete_attrs(const Node& node) {
  const auto& given = node.attrs.items();
  return given.size() == node.op->attrs->size() &&
         std::all_of(node.op->attrs->begin(), node.op->attrs->end(), [&](const AttrSpec& spec) {
           const AttrValue* found = node.attrs.find(spec.name);
           return found != nullptr && kind_of(*found) == kind_of(spec.default_value);
         });
}

// It runs once for all micro-batches of an update, so nothing that it reads may differ between
// them.
void verify_prologue(const Graph& graph, const Node& node, const std::string& where) {
  for (const ValueId input : node.inputs) {
    if (input == kNone) continue;
    const Value& value = graph.value(input);
    const bool is_made = value.producer != kNone;
    const bool is_steady = is_made ? graph.node(value.producer).phase == Phase::prologue
                                   : is_of_model(value.kind) || value.kind == ValueKind::cached;
    if (!is_steady)
      fail(where, "a prologue node reads %" + to_string(input) +
                      ", which is neither a weight nor made of weights by the prologue");
  }
}

}  // namespace

void verify(const Graph& graph) {
  verify_values(graph);
  IdVector<ValueId, ValueId> storages = graph.values.ids();  // of those made so far
  IdVector<ValueId, bool> is_defined(graph.values.size(), false);
  IdVector<ValueId, bool> is_overwritten(graph.values.size(), false);  // by storage
  for (const ValueId id : graph.values.ids()) is_defined[id] = graph.values[id].producer == kNone;
  for (const NodeId id : graph.nodes.ids()) {
    stop_point();
    const Node& node = graph.nodes[id];
    const std::string where =
        "node " + to_string(id) + " " + (node.op == nullptr ? "?" : *node.op->name);
    if (node.op == nullptr) fail(where, "it has no op");
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId input = node.inputs[k];
      if (input == kNone) continue;
      if (!graph.has(input)) fail(where, "an input is out of range");
      if (!is_defined[input]) fail(where, "%" + to_string(input) + " is read before it is made");
      if (is_overwritten[input]) {
        fail(where, "%" + to_string(input) + " is read after it was overwritten");
      }
    }
    if (!has_complete_attrs(node)) {
      (void)complete_attrs(*node.op, node.attrs,
                           where);  // says which is unknown or of another kind
      fail(where, "attributes are not complete");
    }
    const std::vector<TensorType> types =
        infer_types(*node.op, input_types(graph, node), node.attrs, where);
    if (types.size() != node.outputs.size()) fail(where, "wrong number of outputs");
    for (size_t k = 0; k < types.size(); ++k) {
      const ValueId output = node.outputs[k];
      if (!graph.has(output)) fail(where, "an output is out of range");
      if (is_defined[output]) fail(where, "%" + to_string(output) + " is made twice");
      if (graph.value(output).producer != id) fail(where, "an output has another producer");
      if (graph.type(output) != types[k]) {
        fail(where, "output type is " + to_string(graph.type(output)) + " but should be " +
                        to_string(types[k]));
      }
      is_defined[output] = true;
    }
    if (node.phase == Phase::prologue) verify_prologue(graph, node, where);
    const Alias& alias = *node.op->alias;
    const bool overwrites = alias.kind == AliasKind::must_overwrite;
    if (!overwrites && alias.kind != AliasKind::view) continue;
    for (const auto& [output, input] : alias.pairs) {
      const ValueId source = node.inputs[input];
      if (source != kNone) storages[node.outputs[output]] = storages[source];
    }
    if (!overwrites) continue;
    for (const auto& [output, input] : alias.pairs) {
      const ValueId source = node.inputs[input];
      if (graph.type(source) != graph.type(node.outputs[output]))
        fail(where, "overwrites another type");
      if (!graph.is_resident(storages[source]))
        fail(where, "only resident values may be overwritten");
      is_overwritten[source] = true;
    }
  }
  for (ValueId id : graph.outputs) {
    if (!graph.has(id) || graph.value(id).producer == kNone) {
      fail(graph.name, "an output is not a computed value");
    }
  }
}

}  // namespace snug
