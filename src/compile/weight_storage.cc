// SPDX-License-Identifier: Apache-2.0
#include "compile/weight_storage.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/stop.h"
#include "compile/recipe.h"
#include "ops/coded/coded.h"
#include "ops/elementwise/elementwise.h"
#include "snug/error.h"
#include "snug/lora.h"

namespace snug::train {
namespace {

constexpr int64_t kLeastElements = 4096;
constexpr const char* kFrozenKey = "frozen_dtype";
constexpr const char* kWeightKey = "weight_dtype";

[[noreturn]] void refuse(const char* key, const std::string& what, const std::string& hint) {
  throw Error(ErrorCode::bad_config, key, what, hint);
}

bool is_product(const Node& node, size_t input) {
  return *node.op->name == "matmul" && input == 1 && !node.attrs.boolean("transpose_a");
}
bool is_gather(const Node& node, size_t input) {
  return *node.op->name == "embedding" && input == 0;
}
bool is_cast(const Node& node) { return *node.op->name == "cast"; }

/// Which weights are stored in fewer bits.
class Choice {
 public:
  Choice(const Graph& graph, const NetworkDef& network, const WeightStorage& storage)
      : graph_(graph), network_(network) {
    std::vector<std::string> names;
    for (const Value& value : graph.values) {
      if (value.kind == ValueKind::parameter) names.push_back(value.name);
    }
    const std::vector<std::string> trained =
        trainable_names(names, storage.freeze, network.is_frozen);
    if (storage.frozen != DType::f32 && trained.size() == names.size())
      refuse(kFrozenKey, "no weight is frozen", "set freeze or lora, or leave frozen_dtype away");
    trained_.insert(trained.begin(), trained.end());
  }

  [[nodiscard]] std::set<ValueId> frozen(bool only_direct) const {
    std::set<ValueId> found;
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const Value& value = graph_.values[i];
      // A frozen adapter is of no base whose folder would have its values when it is saved.
      const bool is_of_base = !network_.is_head(value.name) && !is_adapter_name(value.name);
      if (is_large(value) && trained_.count(value.name) == 0 && is_of_base)
        found.insert(static_cast<ValueId>(i));
    }
    if (only_direct) keep_direct(found);
    if (found.empty())
      refuse(kFrozenKey,
             only_direct
                 ? "no frozen weight of 4096 elements or more is a linear map or a table of "
                   "embeddings"
                 : "no frozen weight has 4096 elements or more",
             "leave frozen_dtype away");
    return found;
  }

  [[nodiscard]] std::set<ValueId> trained() const {
    std::set<ValueId> found;
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const Value& value = graph_.values[i];
      if (is_large(value) && trained_.count(value.name) != 0) found.insert(static_cast<ValueId>(i));
    }
    if (found.empty())
      refuse(kWeightKey, "no trained weight has two dimensions and 4096 elements or more",
             "leave weight_dtype away");
    return found;
  }

 private:
  static bool is_large(const Value& value) {
    return value.kind == ValueKind::parameter && value.type.dtype == DType::f32 &&
           value.type.shape.size() >= 2 && element_count(value.type) >= kLeastElements;
  }
  void keep_direct(std::set<ValueId>& found) const {
    std::erase_if(found, [&](ValueId id) { return graph_.type(id).shape.size() != 2; });
    for (const Node& node : graph_.nodes) {
      stop_point();
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        if (!is_product(node, k) && !is_gather(node, k)) found.erase(node.inputs[k]);
      }
    }
  }

  const Graph& graph_;
  const NetworkDef& network_;
  std::set<std::string> trained_;
};

// The product that decodes its weight itself, in the place of one.
void read_directly(Node& node, ValueId weight, ValueId scales, const OpRegistry& ops) {
  if (*node.op->name == "matmul") {
    const ValueId bias = node.inputs.size() > 2 ? node.inputs[2] : kNone;
    node.inputs = std::vector{node.inputs[0], weight, scales, bias};
    node.attrs = Attrs{{"transpose_b", node.attrs.boolean("transpose_b")}};
    node.op = ops.find("coded_matmul");
  } else {
    node.inputs = std::vector{weight, node.inputs[1], scales};
    node.op = ops.find("coded_embedding");
  }
}

Graph with_scales(Graph graph, const OpRegistry& ops, const std::set<ValueId>& coded) {
  std::map<ValueId, ValueId> scales;
  for (const ValueId weight : coded) {
    graph.values[weight].type.dtype = DType::u8;
    const Shape shape = graph.type(weight).shape;
    const std::string name = graph.value(weight).name + kScalesSuffix;
    if (graph.find(name) != kNone)
      refuse(kFrozenKey, "the name '" + name + "' is taken", "call it otherwise");
    scales[weight] = static_cast<ValueId>(graph.values.size());
    Value added;
    added.type = {DType::f32, Shape{shape[0], coded_blocks(shape[1])}};
    added.kind = ValueKind::buffer;
    added.name = name;
    graph.values.push_back(std::move(added));
  }
  for (Node& node : graph.nodes) {
    stop_point();
    for (size_t k = 0; k < node.inputs.size() && k < 2; ++k) {
      const ValueId weight = node.inputs[k];
      if (coded.count(weight) == 0 || !(is_product(node, k) || is_gather(node, k))) continue;
      read_directly(node, weight, scales[weight], ops);
      break;
    }
  }
  return graph;
}

/// Numbers every value's producer again.
Graph with_nodes(Graph graph, IdVector<Node> nodes) {
  graph.nodes = std::move(nodes);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId output : graph.nodes[i].outputs)
      graph.values[output].producer = static_cast<NodeId>(i);
  }
  return graph;
}

/// Puts a cast to f32 before the readers of these weights: one for all that are run again together.
Graph with_casts(Graph graph, const OpRegistry& ops, const std::map<ValueId, DType>& stored) {
  for (const auto& [weight, dtype] : stored) graph.values[weight].type.dtype = dtype;
  std::map<std::tuple<ValueId, Phase, std::vector<int32_t>>, ValueId> casts;
  IdVector<Node> nodes;
  for (Node& node : graph.nodes) {
    stop_point();
    for (ValueId& input : node.inputs) {
      if (stored.count(input) == 0) continue;
      const auto [made, is_new] = casts.try_emplace({input, node.phase, node.parts}, kNone);
      if (is_new) {
        made->second = static_cast<ValueId>(graph.values.size());
        Value value;
        value.type = {DType::f32, graph.type(input).shape};
        graph.values.push_back(std::move(value));
        nodes.push_back({.op = ops.find("cast"),
                         .inputs = {input},
                         .outputs = {made->second},
                         .attrs = {{"to", std::string("f32")}},
                         .scope = node.scope,
                         .phase = node.phase,
                         .parts = node.parts});
      }
      input = made->second;
    }
    nodes.push_back(std::move(node));
  }
  return with_nodes(std::move(graph), std::move(nodes));
}

/// Lets readers of a weight's cast read the weight itself where they can.
Graph with_direct_reads(Graph graph, const OpRegistry& ops) {
  std::map<ValueId, ValueId> weight_of;  // of a cast's f32
  std::map<ValueId, ValueId> same;       // a cast to bf16 of that, and the weight that it equals
  for (Node& node : graph.nodes) {
    stop_point();
    for (ValueId& input : node.inputs) {
      const auto found = same.find(input);
      if (found != same.end()) input = found->second;
    }
    if (is_cast(node)) {
      const ValueId input = node.inputs[0];
      const Value& source = graph.value(input);
      const bool is_weight = is_coded_weight(source.kind, source.type.dtype);
      if (is_weight && node.attrs.text("to") == "f32") weight_of[node.outputs[0]] = input;
      const auto found = weight_of.find(input);
      if (found == weight_of.end() || node.attrs.text("to") != "bf16") continue;
      if (graph.type(found->second).dtype == DType::bf16) {
        same[node.outputs[0]] = found->second;
      } else {
        node.op = ops.find("upper_half");
        node.inputs[0] = found->second;
        node.attrs = Attrs{};
      }
      continue;
    }
    for (size_t k = 0; k < node.inputs.size() && k < 2; ++k) {
      const auto found = weight_of.find(node.inputs[k]);
      if (found == weight_of.end() || !(is_product(node, k) || is_gather(node, k))) continue;
      if (graph.type(found->second).shape.size() != 2) continue;
      read_directly(node, found->second, kNone, ops);
      break;
    }
  }
  return graph;
}

// Appends the forward part to an empty builder, and puts what `change` makes of it there.
template <class Change>
NetworkDef rewritten(const NetworkDef& network, Change change) {
  NetworkDef changed = network;
  changed.build = [network, change](GraphBuilder& builder, const BuildRequest& request) {
    const ValueId loss = network.build(builder, request);
    builder = GraphBuilder(ops_of(network), change(builder.take()));
    return loss;
  };
  return changed;
}

bool has_casts(const WeightStorage& storage) {
  return storage.frozen == DType::bf16 || storage.trained != DType::f32;
}

}  // namespace

WeightStorage make_weight_storage(std::vector<std::string> freeze, const std::string& frozen_dtype,
                                  const std::string& weight_dtype) {
  const auto find = [](const char* key, const std::string& word,
                       const std::map<std::string, DType>& words) {
    const auto found = words.find(word);
    if (found != words.end()) return found->second;
    std::string all;
    for (const auto& [name, dtype] : words) all += (all.empty() ? "" : ", ") + name;
    refuse(key, "there is no '" + word + "'", "there are " + all);
  };
  return {.freeze = std::move(freeze),
          .frozen = find(kFrozenKey, frozen_dtype,
                         {{"float32", DType::f32}, {"bfloat16", DType::bf16}, {"int8", DType::u8}}),
          .trained = find(
              kWeightKey, weight_dtype,
              {{"float32", DType::f32}, {"bf16x8", DType::bf16x8}, {"bfloat16", DType::bf16}})};
}

bool is_coded_weight(ValueKind kind, DType dtype) {
  return kind == ValueKind::parameter && dtype != DType::f32;
}

NetworkDef with_weight_storage(NetworkDef network, const WeightStorage& storage) {
  if (storage.frozen == DType::f32 && storage.trained == DType::f32) return network;
  return rewritten(network, [network, storage](Graph graph) {
    const OpRegistry& ops = ops_of(network);
    const Choice choice(graph, network, storage);
    std::map<ValueId, DType> cast;
    if (storage.trained != DType::f32) {
      for (const ValueId weight : choice.trained()) cast[weight] = storage.trained;
    }
    if (storage.frozen == DType::bf16) {
      for (const ValueId weight : choice.frozen(false)) cast[weight] = DType::bf16;
    }
    if (storage.frozen == DType::u8) graph = with_scales(graph, ops, choice.frozen(true));
    return cast.empty() ? std::move(graph) : with_casts(std::move(graph), ops, cast);
  });
}

NetworkDef with_direct_reads(NetworkDef network, const WeightStorage& storage) {
  if (!has_casts(storage)) return network;
  return rewritten(network, [network](Graph graph) {
    return with_direct_reads(std::move(graph), ops_of(network));
  });
}

}  // namespace snug::train
