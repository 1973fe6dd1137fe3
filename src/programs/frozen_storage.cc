// SPDX-License-Identifier: Apache-2.0
#include "programs/frozen_storage.h"

#include <map>
#include <set>
#include <utility>

#include "base/stop.h"
#include "ops/frozen/frozen.h"
#include "programs/recipe.h"
#include "snug/error.h"

namespace snug::train {
namespace {

constexpr int64_t kLeastElements = 4096;

[[noreturn]] void refuse(const std::string& what, const std::string& hint) {
  throw Error(ErrorCode::bad_config, "frozen_dtype", what, hint);
}

bool is_product(const Node& node, size_t input) {
  return *node.op->name == "matmul" && input == 1 && !node.attrs.boolean("transpose_a");
}
bool is_gather(const Node& node, size_t input) {
  return *node.op->name == "embedding" && input == 0 && node.attrs.text("to") == "f32";
}

// Values that are coded: frozen, large, and read by products and gathers alone.
std::set<ValueId> coded_weights(const Graph& graph, const NetworkDef& network,
                                const std::vector<std::string>& freeze) {
  std::vector<std::string> names;
  for (const Value& value : graph.values) {
    if (value.kind == ValueKind::parameter) names.push_back(value.name);
  }
  const std::vector<std::string> trained = trainable_names(names, freeze, network.is_frozen);
  if (trained.size() == names.size())
    refuse("no weight is frozen", "set freeze or lora, or leave frozen_dtype away");
  const std::set<std::string> is_trained(trained.begin(), trained.end());
  std::set<ValueId> coded;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.kind == ValueKind::parameter && is_trained.count(value.name) == 0 &&
        !network.is_head(value.name) && value.type.dtype == DType::f32 &&
        value.type.shape.size() == 2 && element_count(value.type) >= kLeastElements)
      coded.insert(static_cast<ValueId>(i));
  }
  for (const Node& node : graph.nodes) {
    stop_point();
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (!is_product(node, k) && !is_gather(node, k)) coded.erase(node.inputs[k]);
    }
  }
  if (coded.empty())
    refuse("no frozen weight of 4096 elements or more is a linear map or a table of embeddings",
           "leave frozen_dtype away");
  return coded;
}

Graph with_codes(Graph graph, const OpRegistry& ops, const std::set<ValueId>& coded,
                 DType storage) {
  std::map<ValueId, ValueId> scales;
  for (const ValueId weight : coded) {
    graph.values[weight].type.dtype = storage;
    if (storage != DType::u8) {
      scales[weight] = kNone;
      continue;
    }
    const Shape shape = graph.type(weight).shape;
    const std::string name = graph.value(weight).name + kScalesSuffix;
    if (graph.find(name) != kNone) refuse("the name '" + name + "' is taken", "call it otherwise");
    scales[weight] = static_cast<ValueId>(graph.values.size());
    Value added;
    added.type = {DType::f32, Shape{shape[0], frozen_blocks(shape[1])}};
    added.kind = ValueKind::buffer;
    added.name = name;
    graph.values.push_back(std::move(added));
  }
  for (Node& node : graph.nodes) {
    stop_point();
    if (node.inputs.size() > 1 && is_product(node, 1) && coded.count(node.inputs[1]) != 0) {
      const ValueId bias = node.inputs.size() > 2 ? node.inputs[2] : kNone;
      node.inputs = std::vector{node.inputs[0], node.inputs[1], scales[node.inputs[1]], bias};
      node.attrs = Attrs{{"transpose_b", node.attrs.boolean("transpose_b")}};
      node.op = ops.find("frozen_matmul");
    } else if (!node.inputs.empty() && is_gather(node, 0) && coded.count(node.inputs[0]) != 0) {
      node.inputs = std::vector{node.inputs[0], node.inputs[1], scales[node.inputs[0]]};
      node.attrs = Attrs{};
      node.op = ops.find("frozen_embedding");
    }
  }
  return graph;
}

}  // namespace

DType frozen_storage_of(const std::string& word) {
  if (word == "float32") return DType::f32;
  if (word == "bfloat16") return DType::bf16;
  if (word == "int8") return DType::u8;
  refuse("there is no '" + word + "'", "float32, bfloat16 and int8 are");
}

bool is_frozen_code(ValueKind kind, DType dtype) {
  return kind == ValueKind::parameter && dtype != DType::f32;
}

NetworkDef with_frozen_storage(NetworkDef network, const std::vector<std::string>& freeze,
                               DType storage) {
  if (storage == DType::f32) return network;
  NetworkDef coded = network;
  coded.build = [network, freeze, storage](GraphBuilder& builder, const BuildRequest& request) {
    const ValueId loss = network.build(builder, request);
    const std::set<ValueId> weights = coded_weights(builder.graph(), network, freeze);
    const OpRegistry& ops = ops_of(network);
    builder = GraphBuilder(ops, with_codes(builder.take(), ops, weights, storage));
    return loss;
  };
  return coded;
}

}  // namespace snug::train
