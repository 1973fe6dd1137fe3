// SPDX-License-Identifier: Apache-2.0
#include "compile/adapters.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/numbers.h"
#include "base/stop.h"
#include "base/wildcard.h"
#include "compile/draws.h"
#include "compile/lora_names.h"
#include "compile/rewriter.h"
#include "graph/text.h"
#include "ops/dropout/dropout.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "snug/error.h"

namespace snug::compile {
namespace {

constexpr std::string_view kAEnd = ".lora_A.weight";
constexpr const char* kNamesHint = "`snug inspect --weights` lists the names";

void check_rank(int64_t rank) {
  if (rank < 1) refuse_lora("a rank r of " + std::to_string(rank), "give 1 or more");
}
void check_alpha(double alpha) {
  if (!(alpha > 0 && std::isfinite(alpha)))
    refuse_lora("alpha " + number_text(alpha) + " is not above 0", "give r or 2 r, for example");
}

// Whether the input is a matrix that maps the rows of another.
bool is_use(const Node& node, size_t input) { return node.op->linear_operand == input; }

/// What PEFT's modules_to_save means: modules by the ends of their names.
class SavedModules {
 public:
  explicit SavedModules(const std::vector<std::string>& ends) : ends_(ends) {}
  [[nodiscard]] bool has(const std::string& parameter) const {
    return std::any_of(ends_.begin(), ends_.end(),
                       [&](const std::string& end) { return is_of(end, parameter); });
  }
  // Whether a module around the parameter ends so.
  [[nodiscard]] static bool is_of(const std::string& end, const std::string& parameter) {
    for (size_t dot = parameter.rfind('.'); dot != std::string::npos && dot > 0;
         dot = parameter.rfind('.', dot - 1)) {
      if (std::string_view(parameter).substr(0, dot).ends_with(end)) return true;
    }
    return false;
  }

 private:
  const std::vector<std::string>& ends_;
};

/// Which products are linear maps of which weight.
class Targets {
 public:
  Targets(const Graph& graph, const NetworkDef& network, const LoraOptions& lora)
      : graph_(graph), network_(network), saved_(lora.modules_to_save) {
    for (const std::string& pattern : lora.match) match(pattern);
    for (const std::string& end : lora.target_modules) take_modules(end);
    if (!lora.target_expression.empty()) take_expression(lora.target_expression);
    for (const NodeId id : graph.nodes.ids()) find_uses(id);
    for (const auto& [weight, is_used] : weights_) {
      if (!is_used) refuse_weight(weight);
    }
  }
  /// In the order of the graph.
  [[nodiscard]] const std::vector<NodeId>& products() const { return products_; }
  /// The names of the weights.
  [[nodiscard]] std::set<std::string> weights() const {
    std::set<std::string> names;
    for (const auto& [weight, is_used] : weights_) names.insert(graph_.value(weight).name);
    return names;
  }

 private:
  // Biases and norms are vectors, and no pattern means them.
  void match(const std::string& pattern) {
    bool is_vector = false;
    bool is_any = false;
    for (const ValueId id : graph_.values.ids()) {
      stop_point();
      const Value& value = graph_.values[id];
      if (value.kind != ValueKind::parameter || !matches_wildcard(pattern, value.name)) continue;
      if (value.type.shape.size() < 2) {
        is_vector = true;
        continue;
      }
      if (network_.is_head(value.name))
        refuse_lora("'" + value.name + "' belongs to the head, which is trained as it is",
                    "match the maps before it");
      if (saved_.has(value.name))
        refuse_lora("'" + value.name + "' belongs to modules_to_save, which are trained whole",
                    "match other maps, or take it out of modules_to_save");
      is_any = true;
      weights_.emplace(id, false);
    }
    if (!is_any)
      refuse_lora("the pattern '" + pattern + "' matches " +
                      (is_vector ? "vectors only, and no linear map" : "no weight of the model"),
                  kNamesHint);
  }
  // PEFT leaves out what is trained whole: the head, which it finds by name, and modules_to_save.
  [[nodiscard]] bool may_have_one(const Value& value) const {
    return value.kind == ValueKind::parameter && value.type.shape.size() >= 2 &&
           !network_.is_head(value.name) && !saved_.has(value.name);
  }
  template <class Wanted>
  [[nodiscard]] bool take_where(Wanted is_wanted) {
    bool is_any = false;
    for (const ValueId id : graph_.values.ids()) {
      stop_point();
      const Value& value = graph_.values[id];
      if (!may_have_one(value) || !is_wanted(id, module_of(value.name))) continue;
      is_any = true;
      weights_.emplace(id, false);
    }
    return is_any;
  }
  void take_modules(const std::string& end) {
    const bool is_any = take_where([&](ValueId, const std::string& module) {
      return module == end || module.ends_with("." + end);
    });
    if (!is_any)
      refuse_lora("target_modules: no linear map before the head is called '" + end + "'",
                  kNamesHint);
  }
  void take_expression(const std::string& text) {
    const bool is_all = text == kAllLinear;
    const Expression expression = lora_expression(text, is_all ? ".*" : text);
    const std::set<ValueId> maps = is_all ? maps_only() : std::set<ValueId>();
    const bool is_any = take_where([&](ValueId id, const std::string& module) {
      return is_all ? maps.count(id) != 0 : expression.matches(module);
    });
    if (!is_any)
      refuse_lora("target_modules: '" + text + "' matches no linear map before the head",
                  std::string("an expression matches whole names; ") + kNamesHint);
  }
  // Weights that products alone read.
  [[nodiscard]] std::set<ValueId> maps_only() const {
    std::set<ValueId> maps;
    std::set<ValueId> others;
    for (const Node& node : graph_.nodes) {
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        if (node.inputs[k] != kNone) (is_use(node, k) ? maps : others).insert(node.inputs[k]);
      }
    }
    std::erase_if(maps, [&](ValueId id) {
      return others.count(id) != 0 || graph_.type(id).shape.size() != 2;
    });
    return maps;
  }
  void find_uses(NodeId id) {
    const Node& node = graph_.node(id);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const auto found = weights_.find(node.inputs[k]);
      if (found == weights_.end()) continue;
      if (!is_use(node, k) || graph_.type(found->first).shape.size() != 2) continue;
      found->second = true;
      products_.push_back(id);
    }
  }
  [[noreturn]] void refuse_weight(ValueId weight) const {
    std::string reader = "nothing reads it";
    for (const NodeId id : graph_.nodes.ids()) {
      const auto& inputs = graph_.nodes[id].inputs;
      if (std::find(inputs.begin(), inputs.end(), weight) == inputs.end()) continue;
      reader = "it is read by " + describe(graph_, id);
      break;
    }
    refuse_lora("'" + graph_.value(weight).name + "' " + to_string(graph_.type(weight).shape) +
                    " is no linear map: " + reader,
                std::string("match weights of linear layers; ") + kNamesHint);
  }

  const Graph& graph_;
  const NetworkDef& network_;
  SavedModules saved_;
  std::map<ValueId, bool> weights_;  // those that patterns name, and whether a product uses them
  std::vector<NodeId> products_;
};

/// By value: whether anything that is fed is behind it; the key of random numbers is the same for
/// all rows.
IdVector<ValueId, bool> has_rows(const Graph& graph) {
  IdVector<ValueId, bool> found(graph.values.size(), false);
  for (const ValueId id : graph.values.ids()) {
    const Value& value = graph.values[id];
    found[id] = value.kind == ValueKind::input && value.type.dtype != DType::i64;
  }
  for (const Node& node : graph.nodes) {
    const bool is_any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                    [&](ValueId id) { return id != kNone && found[id]; });
    for (const ValueId output : node.outputs) found[output] = is_any;
  }
  return found;
}

/// Appends what is added to one product, and returns the value that takes its place.
class Adapters {
 public:
  Adapters(GraphBuilder& builder, const LoraOptions& lora, bool training)
      : builder_(builder), lora_(lora), training_(training) {}

  ValueId append(const Node& product, bool reads_rows) {
    const bool transpose_a = product.attrs.boolean("transpose_a");
    const ValueId weight = product.inputs[*product.op->linear_operand];
    const auto& [a, b] = weights_of(weight, product.attrs.boolean("transpose_b"));
    ValueId x = product.inputs[0];
    // What is made of weights only has no rows that masks could follow through a split.
    if (training_ && lora_.dropout > 0)
      x = dropout(builder_, x, random_key(), lora_.dropout, reads_rows ? 0 : -1);
    ValueId h = matmul(builder_, x, a, {.transpose_a = transpose_a, .transpose_b = true});
    const double factor = adapter_size(lora_, builder_.graph().value(weight).name).scale;
    if (factor != 1) h = scale(builder_, h, factor);
    return matmul(builder_, h, b, {.transpose_b = true, .bias = product.outputs[0]});
  }

 private:
  // Declared at the first use.
  const std::pair<ValueId, ValueId>& weights_of(ValueId weight, bool is_transposed) {
    const auto found = weights_.find(weight);
    if (found != weights_.end()) return found->second;
    const Shape shape = builder_.shape(weight);
    const int64_t in = shape[is_transposed ? 1 : 0];
    const int64_t out = shape[is_transposed ? 0 : 1];
    const std::string name = builder_.graph().value(weight).name;
    const AdapterNames names = adapter_names(name);
    const int64_t rank = adapter_size(lora_, name).rank;
    const ValueId a = builder_.parameter(names.a, {DType::f32, {rank, in}});
    const ValueId b = builder_.parameter(names.b, {DType::f32, {out, rank}});
    return weights_[weight] = {a, b};
  }
  // Looked for once: there are as many adapters as products.
  ValueId random_key() {
    if (rng_ == kNone) rng_ = random_key_of(builder_);
    return rng_;
  }

  GraphBuilder& builder_;
  const LoraOptions& lora_;
  bool training_;
  ValueId rng_ = kNone;
  std::map<ValueId, std::pair<ValueId, ValueId>> weights_;
};

// Nothing that was asked for may be without effect.
template <class Number>
void check_rules(const char* key, const std::vector<LoraRule<Number>>& rules,
                 const std::set<std::string>& weights) {
  for (const LoraRule<Number>& rule : rules) {
    const bool is_any = std::any_of(weights.begin(), weights.end(), [&](const std::string& weight) {
      return is_rule_for(rule.expression, weight);
    });
    if (!is_any)
      refuse_lora(std::string(key) + ": '" + rule.expression + "' matches no map with an adapter",
                  "take it out, or write the end of a map's name");
  }
}
void check_saved(const Graph& graph, const std::vector<std::string>& modules) {
  for (const std::string& end : modules) {
    // PEFT's names of heads, which it adds by itself.
    const bool is_any =
        end == "classifier" || end == "score" ||
        std::any_of(graph.values.begin(), graph.values.end(), [&](const Value& value) {
          return value.kind == ValueKind::parameter && SavedModules::is_of(end, value.name);
        });
    if (!is_any)
      refuse_lora("modules_to_save: the model has no module whose name ends in '" + end + "'",
                  kNamesHint);
  }
}

// The biases of maps that have adapters.
std::set<std::string> adapted_biases(const NetworkDef& network, const LoraOptions& lora) {
  GraphBuilder builder(ops_of(network), "adapted maps");
  (void)network.build(builder, {.rows = 1, .lengths = network.shortest, .training = false});
  const Graph graph = builder.take();
  std::set<std::string> biases;
  for (const std::string& weight : Targets(graph, network, lora).weights())
    biases.insert(module_of(weight).append(kBiasEnd));
  return biases;
}

}  // namespace

void check_lora(const LoraOptions& lora) {
  check_rank(lora.r);
  check_alpha(lora.alpha);
  for (const LoraRule<int64_t>& rule : lora.rank_pattern) check_rank(rule.value);
  for (const LoraRule<double>& rule : lora.alpha_pattern) check_alpha(rule.value);
  if (!(lora.dropout >= 0 && lora.dropout < 1))
    refuse_lora("dropout " + number_text(lora.dropout) + " is not within [0, 1)",
                "give 0 for none");
}

std::function<bool(const std::string&)> trained_beside(const NetworkDef& network,
                                                       const LoraOptions& lora) {
  const std::set<std::string> biases =
      lora.bias == LoraBias::lora_only ? adapted_biases(network, lora) : std::set<std::string>();
  return [lora, biases](const std::string& parameter) {
    const bool is_bias =
        lora.bias == LoraBias::all && (parameter == "bias" || parameter.ends_with(kBiasEnd));
    return is_bias || biases.count(parameter) != 0 ||
           SavedModules(lora.modules_to_save).has(parameter);
  };
}

InitRule init_of_adapter(const std::string& name, const Shape& shape) {
  // torch's kaiming_uniform with a = sqrt(5), as PEFT's.
  if (name.ends_with(kAEnd)) return InitRule::uniform(1 / std::sqrt(static_cast<double>(shape[1])));
  return InitRule::zeros();
}

Graph add_adapters(Graph graph, const NetworkDef& network, bool training) {
  const LoraOptions& lora = network.changes.lora;
  const Targets targets(graph, network, lora);
  check_rules("rank_pattern", lora.rank_pattern, targets.weights());
  check_rules("alpha_pattern", lora.alpha_pattern, targets.weights());
  check_saved(graph, lora.modules_to_save);
  std::vector<bool> reads_rows;  // by product
  const IdVector<ValueId, bool> is_fed = has_rows(graph);
  for (const NodeId product : targets.products())
    reads_rows.push_back(is_fed[graph.node(product).inputs[0]]);
  const std::vector<NodeId> products = targets.products();
  const int64_t first_ordinal = next_ordinal(graph);
  Rewriter rewriter(std::move(graph), ops_of(network));
  Adapters adapters(rewriter, lora, training);
  size_t next = 0;
  rewriter.for_each_node([&](Node& node, NodeId id) {
    rewriter.keep(node);
    if (next == products.size() || products[next] != id) return;
    const Node product = rewriter.graph().nodes.back();
    rewriter.replace(product.outputs[0], adapters.append(product, reads_rows[next++]));
  });
  Graph adapted = rewriter.take();
  if (network.draws == DrawNumbering::operands) number_added_draws(adapted, first_ordinal);
  return adapted;
}

namespace {

// What a product reads, before it was cast.
ValueId uncast(const Graph& graph, ValueId id) {
  const NodeId producer = graph.value(id).producer;
  const bool is_converted = producer != kNone && graph.node(producer).op->is_conversion;
  return is_converted ? graph.node(producer).inputs[0] : id;
}

std::set<std::string> linear_maps(const Graph& graph, const NetworkDef& network) {
  std::set<std::string> maps;
  for (const Node& node : graph.nodes) {
    if (!node.op->linear_operand) continue;
    const Value& value = graph.value(uncast(graph, node.inputs[*node.op->linear_operand]));
    if (value.kind == ValueKind::parameter && value.type.shape.size() == 2 &&
        !network.is_head(value.name))
      maps.insert(value.name);
  }
  return maps;
}

// *.LAST.weight of a name that ends so, else the name.
std::string pattern_of(const std::string& name) {
  const size_t weight = name.rfind('.');
  const size_t last =
      weight == std::string::npos || weight == 0 ? std::string::npos : name.rfind('.', weight - 1);
  return last == std::string::npos ? name : "*" + name.substr(last);
}

}  // namespace

std::vector<std::string> linear_map_patterns(const Graph& graph, const NetworkDef& network) {
  const std::set<std::string> maps = linear_maps(graph, network);
  // Two names match each other's pattern where they end alike, and then the patterns are equal.
  std::set<std::string> others;
  for (const Value& value : graph.values) {
    if (value.kind != ValueKind::parameter) continue;
    if (value.name.find('*') != std::string::npos) return {};  // no pattern means only it
    if (value.type.shape.size() >= 2 && maps.count(value.name) == 0)
      others.insert(pattern_of(value.name));
  }
  std::set<std::string> patterns;
  for (const std::string& map : maps) {
    stop_point();
    const std::string pattern = pattern_of(map);
    patterns.insert(others.count(pattern) == 0 ? pattern : map);
  }
  return {patterns.begin(), patterns.end()};
}

}  // namespace snug::compile
