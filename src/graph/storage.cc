// SPDX-License-Identifier: Apache-2.0
#include "graph/storage.h"

#include "base/stop.h"
#include "graph/op_def.h"

namespace snug {
namespace {

// The value in whose place a node's output is, one step back, or kNone.
ValueId source_of(const Graph& graph, const Value& value) {
  if (value.producer == kNone) return kNone;
  const Node& node = graph.node(value.producer);
  const Alias& alias = *node.op->alias;
  if (alias.kind != AliasKind::view && alias.kind != AliasKind::must_overwrite) return kNone;
  ValueId source = kNone;
  for (const auto& [output, input] : alias.pairs) {
    if (output == value.output_index) source = node.inputs[input];
  }
  return source;
}

}  // namespace

ValueId storage_of(const Graph& graph, ValueId id) {
  for (ValueId source = id; source != kNone; source = source_of(graph, graph.value(id)))
    id = source;
  return id;
}

IdVector<ValueId, ValueId> storages_of(const Graph& graph) {
  IdVector<ValueId, ValueId> storages = graph.values.ids();
  for (const Node& node : graph.nodes) {
    stop_point();
    for (const ValueId output : node.outputs) {
      const ValueId source = source_of(graph, graph.value(output));
      if (source != kNone) storages[output] = storages[source];
    }
  }
  return storages;
}

}  // namespace snug
