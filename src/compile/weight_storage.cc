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
#include "compile/rewriter.h"
#include "ops/coded/coded.h"
#include "ops/elementwise/elementwise.h"
#include "snug/error.h"
#include "snug/lora.h"

namespace snug::compile {
namespace {

constexpr int64_t kLeastElements = 4096;
constexpr const char* kFrozenKey = "frozen_dtype";
constexpr const char* kWeightKey = "weight_dtype";

[[noreturn]] void refuse(const char* key, const std::string& what, const std::string& hint) {
  throw Error(ErrorCode::bad_config, key, what, hint);
}

// How the node reads this input where it is stored in fewer bits; nothing where it cannot.
std::optional<CodedForm> coded_form(const Node& node, size_t input) {
  if (node.op->coded_form == nullptr) return std::nullopt;
  std::optional<CodedForm> form = node.op->coded_form(node.attrs);
  return form && form->operand == input ? std::move(form) : std::nullopt;
}

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
      refuse(kFrozenKey, "no weight is frozen", "set freeze or lora, or omit frozen_dtype");
    trained_.insert(trained.begin(), trained.end());
  }

  [[nodiscard]] std::set<ValueId> frozen(bool only_direct) const {
    std::set<ValueId> found;
    for (const ValueId id : graph_.values.ids()) {
      const Value& value = graph_.values[id];
      // A frozen adapter is of no base whose folder would have its values when it is saved.
      const bool is_of_base = !network_.is_head(value.name) && !is_adapter_name(value.name);
      if (is_large(value) && trained_.count(value.name) == 0 && is_of_base) found.insert(id);
    }
    if (only_direct) keep_direct(found);
    if (found.empty())
      refuse(kFrozenKey,
             only_direct
                 ? "no frozen weight of 4096 elements or more is a linear map or a table of "
                   "embeddings"
                 : "no frozen weight has 4096 elements or more",
             "omit frozen_dtype");
    return found;
  }

  [[nodiscard]] std::set<ValueId> trained() const {
    std::set<ValueId> found;
    for (const ValueId id : graph_.values.ids()) {
      const Value& value = graph_.values[id];
      if (is_large(value) && trained_.count(value.name) != 0) found.insert(id);
    }
    if (found.empty())
      refuse(kWeightKey, "no trained weight has two dimensions and 4096 elements or more",
             "omit weight_dtype");
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
        if (!coded_form(node, k)) found.erase(node.inputs[k]);
      }
    }
  }

  const Graph& graph_;
  const NetworkDef& network_;
  std::set<std::string> trained_;
};

// The op that decodes its weight itself, in the place of one.
void become_coded(Node& node, const CodedForm& form, ValueId weight, ValueId scales,
                  const OpRegistry& ops) {
  node.inputs[form.operand] = weight;
  node.inputs.insert(node.inputs.begin() + static_cast<std::ptrdiff_t>(form.scales), scales);
  node.op = ops.find(form.op);
  node.attrs = form.attrs;
}

// The buffers beside weights in 8 bits.
std::map<ValueId, ValueId> add_scales(Rewriter& rewriter, const std::set<ValueId>& coded) {
  std::map<ValueId, ValueId> scales;
  for (const ValueId weight : coded) {
    rewriter.set_dtype(weight, DType::u8);
    const Shape shape = rewriter.shape(weight);
    const std::string name = rewriter.graph().value(weight).name + kScalesSuffix;
    if (rewriter.graph().find(name) != kNone)
      refuse(kFrozenKey, "the name '" + name + "' is taken", "call it otherwise");
    scales[weight] = rewriter.buffer(name, {DType::f32, Shape{shape[0], coded_blocks(shape[1])}});
  }
  return scales;
}

/// Puts casts to f32 before the readers of weights: one for all that are run again together.
class Casts {
 public:
  explicit Casts(Rewriter& rewriter) : rewriter_(rewriter) {}
  /// For the node that is rewritten.
  ValueId of(ValueId weight) {
    const auto [made, is_new] =
        made_.try_emplace({weight, rewriter_.phase(), rewriter_.parts()}, kNone);
    if (is_new) made->second = cast(rewriter_, weight, DType::f32);
    return made->second;
  }

 private:
  Rewriter& rewriter_;
  std::map<std::tuple<ValueId, Phase, std::vector<int32_t>>, ValueId> made_;
};

// Notes the f32 of a weight. Rounded to bf16 again it is the weight where that is stored so, and of
// 24 bits their upper half; then the conversion goes. Returns whether it stays.
bool read_conversion(Rewriter& rewriter, const Node& node, std::map<ValueId, ValueId>& weight_of) {
  const ValueId output = node.outputs[0];
  const DType to = rewriter.type(output).dtype;
  const Value& source = rewriter.graph().value(node.inputs[0]);
  if (is_coded_weight(source.kind, source.type.dtype) && to == DType::f32)
    weight_of[output] = node.inputs[0];
  const auto found = weight_of.find(node.inputs[0]);
  if (found == weight_of.end() || to != DType::bf16) return true;
  const ValueId weight = found->second;
  const bool is_half = rewriter.type(weight).dtype == DType::bf16;
  rewriter.replace(output, is_half ? weight : upper_half(rewriter, weight));
  return false;
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

Graph store_weights(Graph graph, const NetworkDef& network) {
  const OpRegistry& ops = ops_of(network);
  const WeightStorage& storage = network.changes.storage;
  std::map<ValueId, DType> stored;  // behind a cast
  std::set<ValueId> coded;          // in 8 bits
  {
    const Choice choice(graph, network, storage);
    if (storage.trained != DType::f32) {
      for (const ValueId weight : choice.trained()) stored[weight] = storage.trained;
    }
    if (storage.frozen == DType::bf16) {
      for (const ValueId weight : choice.frozen(false)) stored[weight] = DType::bf16;
    }
    if (storage.frozen == DType::u8) coded = choice.frozen(true);
  }
  Rewriter rewriter(std::move(graph), ops);
  const std::map<ValueId, ValueId> scales = add_scales(rewriter, coded);
  for (const auto& [weight, dtype] : stored) rewriter.set_dtype(weight, dtype);
  Casts casts(rewriter);
  rewriter.for_each_node([&](Node& node, NodeId) {
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const auto found = scales.find(node.inputs[k]);
      const auto form = found == scales.end() ? std::nullopt : coded_form(node, k);
      if (!form) continue;
      become_coded(node, *form, found->first, found->second, ops);
      break;
    }
    for (ValueId& input : node.inputs) {
      if (stored.count(input) != 0) input = casts.of(input);
    }
    rewriter.keep(node);
  });
  return rewriter.take();
}

bool has_casts(const WeightStorage& storage) {
  return storage.frozen == DType::bf16 || storage.trained != DType::f32;
}

Graph read_directly(Graph graph, const OpRegistry& ops) {
  std::map<ValueId, ValueId> weight_of;  // of a conversion's f32
  Rewriter rewriter(std::move(graph), ops);
  rewriter.for_each_node([&](Node& node, NodeId) {
    if (node.op->is_conversion) {
      if (read_conversion(rewriter, node, weight_of)) rewriter.keep(node);
      return;
    }
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const auto found = weight_of.find(node.inputs[k]);
      const auto form = found == weight_of.end() ? std::nullopt : coded_form(node, k);
      if (!form || rewriter.shape(found->second).size() != 2) continue;
      become_coded(node, *form, found->second, kNone, ops);
      break;
    }
    rewriter.keep(node);
  });
  return rewriter.take();
}

}  // namespace snug::compile
