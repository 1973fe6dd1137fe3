// SPDX-License-Identifier: Apache-2.0
#include "passes/pack_weights.h"

#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/stop.h"
#include "graph/verify.h"
#include "passes/compact.h"

namespace snug {
namespace {

// Packing takes as long as using the weight for some ten rows, and of 256 rows a product gains no
// more than a fortieth.
constexpr int64_t kMostRows = 128;

using Weight = PackedWeights::Weight;

bool is_product(const Node& node) { return *node.op->name == "matmul"; }

// The weight that a product reads as its second operand; no name where that is none.
Weight weight_of(const Graph& graph, const Node& node) {
  const Value& b = graph.value(node.inputs[1]);
  if (b.kind != ValueKind::parameter) return {};
  return {b.name, node.attrs.boolean("transpose_b")};
}

int64_t rows_of(const Graph& graph, const Node& node) {
  const Shape& a = graph.type(node.inputs[0]).shape;
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < a.size(); ++i) rows *= a[i];
  return rows;
}

// Panels are of f32 and of one matrix, and the product reads rows of its first operand.
bool may_read_panels(const Graph& graph, const Node& node) {
  const TensorType& a = graph.type(node.inputs[0]);
  const TensorType& b = graph.type(node.inputs[1]);
  return !node.attrs.boolean("transpose_a") && b.shape.size() == 2 && element_count(b) > 0 &&
         a.dtype == DType::f32 && b.dtype == DType::f32 &&
         graph.type(node.outputs[0]).dtype == DType::f32;
}

Node packing_of(const Weight& weight, int64_t width, ValueId of, const OpRegistry& registry) {
  Node node;
  node.op = registry.find("pack_weight");
  SNUG_CHECK(node.op != nullptr, "no op pack_weight");
  node.inputs = {of};
  node.attrs = complete_attrs(*node.op, {{"transpose", weight.transposed}, {"width", width}},
                              *node.op->name);
  node.scope = SharedText(weight.name);
  node.phase = Phase::prologue;
  return node;
}

// The node reads panels in place of the weight.
void read_panels(const Graph& graph, ValueId panels, const OpRegistry& registry, Node& node) {
  const int64_t columns = graph.type(node.outputs[0]).shape.back();
  node.op = registry.find("packed_matmul");
  SNUG_CHECK(node.op != nullptr, "no op packed_matmul");
  node.inputs[1] = panels;
  node.attrs = complete_attrs(*node.op, {{"columns", columns}}, *node.op->name);
}

}  // namespace

PackedWeights packable_weights(const Graph& graph, int64_t width, bool repeats) {
  PackedWeights found{.width = width, .weights = {}};
  if (width == 0) return found;
  struct Uses {
    int64_t count = 0;
    bool may_read_panels = true;
  };
  std::map<Weight, Uses> uses;
  for (const Node& node : graph.nodes) {
    stop_point();
    if (!is_product(node)) continue;
    const Weight weight = weight_of(graph, node);
    if (weight.name.empty()) continue;
    Uses& of = uses[weight];
    ++of.count;
    of.may_read_panels =
        of.may_read_panels && may_read_panels(graph, node) && rows_of(graph, node) <= kMostRows;
  }
  for (const auto& [weight, of] : uses) {
    if (of.may_read_panels && (of.count > 1 || repeats)) found.weights.insert(weight);
  }
  return found;
}

Graph pack_weights(Graph graph, const OpRegistry& registry, const PackedWeights& which) {
  if (which.empty()) return graph;
  std::map<Weight, ValueId> panels;
  IdVector<Node> nodes;
  nodes.reserve(graph.nodes.size() + which.weights.size());
  for (Node& node : graph.nodes) {
    stop_point();
    Weight weight;
    if (is_product(node) && may_read_panels(graph, node)) weight = weight_of(graph, node);
    if (!which.weights.contains(weight)) {
      nodes.push_back(std::move(node));
      continue;
    }
    const auto [found, is_first] = panels.emplace(weight, kNone);
    if (is_first) {
      Node packing = packing_of(weight, which.width, node.inputs[1], registry);
      const TensorType type = infer_types(*packing.op, input_types(graph, packing), packing.attrs,
                                          *packing.op->name)[0];
      found->second = static_cast<ValueId>(graph.values.size());
      packing.outputs = {found->second};
      graph.values.push_back({.type = type, .name = {}});
      nodes.push_back(std::move(packing));
    }
    read_panels(graph, found->second, registry, node);
    nodes.push_back(std::move(node));
  }
  SNUG_CHECK(panels.size() == which.weights.size(), "a weight is packed that no product reads");
  graph.nodes = std::move(nodes);
  graph = compact(std::move(graph));
  verify(graph);
  return graph;
}

}  // namespace snug
