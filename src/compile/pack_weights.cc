// SPDX-License-Identifier: Apache-2.0
#include "compile/pack_weights.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/stop.h"
#include "compile/rewriter.h"
#include "ops/packed_matmul/packed_matmul.h"

namespace snug::compile {
namespace {

using Packed = PackedWeights::Weight;

// A product that may read a weight in panels.
struct Reader {
  Packed weight;
  PackedForm form;
};

std::optional<Reader> reader_of(const Graph& graph, const Node& node, int64_t width) {
  if (node.op->packed_form == nullptr) return std::nullopt;
  std::optional<PackedForm> form =
      node.op->packed_form(input_types(graph, node), node.attrs, width);
  if (!form) return std::nullopt;
  const Value& operand = graph.value(node.inputs[form->operand]);
  if (operand.kind != ValueKind::parameter) return std::nullopt;
  return Reader{{operand.name, form->is_transposed}, std::move(*form)};
}

void become(const std::string& op, const Attrs& attrs, const OpRegistry& registry, Node& node) {
  node.op = registry.find(op);
  SNUG_CHECK(node.op != nullptr, "no op " + op);
  node.attrs = complete_attrs(*node.op, attrs, op);
}

// Made once, whoever reads it.
ValueId append_packing(Rewriter& rewriter, const Reader& reader, ValueId weight, Phase of) {
  rewriter.set_scope(SharedText(reader.weight.name));
  rewriter.set_parts({});
  const PhaseGuard phase(rewriter, of);
  return rewriter.op1(reader.form.packing, {weight}, reader.form.packing_attrs);
}

}  // namespace

PackedWeights packable_weights(const Graph& graph, const WeightPanels& panels, bool repeats) {
  PackedWeights found{.width = panels.columns, .weights = {}};
  if (panels.columns == 0) return found;
  struct Uses {
    int64_t count = 0;
    bool has_few_rows = true;
  };
  std::map<Packed, Uses> uses;
  for (const Node& node : graph.nodes) {
    stop_point();
    const std::optional<Reader> reader = reader_of(graph, node, panels.columns);
    if (!reader) continue;
    Uses& of = uses[reader->weight];
    ++of.count;
    of.has_few_rows = of.has_few_rows && reader->form.rows <= panels.most_rows;
  }
  for (const auto& [weight, of] : uses) {
    if (of.has_few_rows && (of.count > 1 || repeats)) found.weights.insert(weight);
  }
  return found;
}

Graph pack_weights(Graph graph, const OpRegistry& registry, const PackedWeights& which,
                   Phase phase) {
  std::map<Packed, ValueId> panels;
  Rewriter rewriter(std::move(graph), registry);
  rewriter.for_each_node([&](Node& node, NodeId) {
    const std::optional<Reader> reader = reader_of(rewriter.graph(), node, which.width);
    if (reader && which.weights.contains(reader->weight)) {
      ValueId& operand = node.inputs[reader->form.operand];
      const auto [found, is_first] = panels.emplace(reader->weight, kNone);
      if (is_first) found->second = append_packing(rewriter, *reader, operand, phase);
      operand = found->second;
      become(reader->form.op, reader->form.attrs, registry, node);
    }
    rewriter.keep(node);
  });
  return rewriter.take();
}

size_t count_packings(const Graph& graph) {
  return static_cast<size_t>(std::count_if(
      graph.nodes.begin(), graph.nodes.end(),
      [](const Node& node) { return node.phase == Phase::prologue && is_packing(node); }));
}

}  // namespace snug::compile
