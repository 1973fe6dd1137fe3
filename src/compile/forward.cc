// SPDX-License-Identifier: Apache-2.0
#include "compile/forward.h"

#include <set>
#include <utility>

#include "base/stop.h"
#include "compile/adapters.h"

namespace snug::compile {
namespace {

// The weight behind conversions that kernels make. What is read in bf16 of a weight in 24 bits is
// none of them: it counts as any weight, as in runs that were saved.
ValueId source_of(const Graph& graph, ValueId id) {
  for (NodeId producer = graph.value(id).producer; producer != kNone;
       producer = graph.value(id).producer) {
    const OpDef& op = *graph.node(producer).op;
    if (!op.is_conversion || op.alias->kind == AliasKind::view) break;
    id = graph.node(producer).inputs[0];
  }
  return id;
}

std::set<ValueId> tables_in(const Graph& graph) {
  std::set<ValueId> tables;
  for (const Node& node : graph.nodes) {
    if (node.op->table_operand == nullptr) continue;
    if (const std::optional<size_t> table = node.op->table_operand(node.attrs))
      tables.insert(source_of(graph, node.inputs[*table]));
  }
  return tables;
}

}  // namespace

NetworkDef with_changes(NetworkDef network, ForwardChanges changes) {
  if (changes.lora.is_on()) {
    check_lora(changes.lora);
    network.init_rule = [rule = network.init_rule](const std::string& weight, const Shape& shape) {
      return is_adapter_name(weight) ? init_of_adapter(weight, shape) : rule(weight, shape);
    };
    network.is_frozen = [is_head = network.is_head,
                         is_beside =
                             trained_beside(network, changes.lora)](const std::string& parameter) {
      return !is_adapter_name(parameter) && !is_head(parameter) && !is_beside(parameter);
    };
  }
  network.changes = std::move(changes);
  network.traces = std::make_shared<TraceCache>();
  return network;
}

void let_traces_go(const NetworkDef& network) {
  if (network.traces != nullptr) network.traces->let_graphs_go();
}

std::vector<Weight> weights_in(const Graph& graph, const NetworkDef& network) {
  const std::set<ValueId> tables = tables_in(graph);
  std::vector<Weight> weights;
  for (const ValueId id : graph.values.ids()) {
    const Value& value = graph.values[id];
    if (!is_of_model(value.kind)) continue;
    stop_point();
    weights.push_back({.value = value,
                       .is_head = network.is_head(value.name),
                       .is_frozen = network.is_frozen && network.is_frozen(value.name),
                       .is_table = tables.contains(id)});
  }
  return weights;
}

TraceCache::Trace TraceCache::get(const BuildRequest& request, const std::function<Trace()>& make) {
  const std::scoped_lock lock(mutex_);
  Kept& kept = request.training ? training_ : evaluation_;
  if (kept.trace != nullptr && kept.request == request) return kept.trace;
  kept = {};  // before the next is there
  kept = {request, make()};
  if (request.training && !weights_) weights_ = kept.trace->weights;
  return kept.trace;
}

std::vector<Weight> TraceCache::weights(const std::function<Trace()>& make) {
  {
    const std::scoped_lock lock(mutex_);
    if (weights_) return *weights_;
  }
  return make()->weights;  // which get() keeps
}

void TraceCache::let_graphs_go() {
  const std::scoped_lock lock(mutex_);
  training_ = {};
  evaluation_ = {};
}

}  // namespace snug::compile
