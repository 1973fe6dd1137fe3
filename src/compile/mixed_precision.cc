// SPDX-License-Identifier: Apache-2.0
#include "compile/mixed_precision.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/stop.h"
#include "compile/node_names.h"
#include "compile/rewriter.h"
#include "ops/elementwise/elementwise.h"
#include "snug/error.h"

namespace snug::compile {
namespace {

constexpr const char* kOption = "precision_overrides";

// Which inputs are stored in 16 bits where the node is.
std::vector<bool> narrow_inputs(const Graph& graph, const Node& node) {
  const auto rule = node.op->precision.narrow;
  const uint32_t mask = rule == nullptr ? 0 : rule(input_types(graph, node));
  std::vector<bool> is_narrow(node.inputs.size(), false);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId id = node.inputs[i];
    if (id == kNone || !is_floating(graph.type(id).dtype)) continue;
    is_narrow[i] = rule == nullptr || (mask >> i & 1U) != 0;
  }
  return is_narrow;
}

// The one type of 16 bits.
DType half_of(const MixedPrecision& precision) {
  DType half = precision.dtype;
  for (const PrecisionOverride& rule : precision.overrides) {
    if (rule.dtype == DType::f32 || rule.dtype == half) continue;
    if (half != DType::f32)
      throw Error(ErrorCode::bad_config, kOption,
                  "'" + rule.match + "' asks for " + to_string(rule.dtype) + ", the rest is " +
                      to_string(half),
                  "a network has one type of 16 bits");
    half = rule.dtype;
  }
  return half;
}

/// The four steps.
class Painter {
 public:
  Painter(const Graph& graph, const MixedPrecision& precision)
      : graph_(graph),
        next_(graph.nodes.size()),
        before_(graph.nodes.size()),
        is_denied_(graph.nodes.size(), false),
        is_painted_(graph.nodes.size(), false) {
    for (const NodeId id : graph.nodes.ids())
      paints_.push_back(graph.nodes[id].op->precision.paint);
    if (precision.dtype == DType::f32) forbid_allowed();
    take_overrides(precision.overrides, precision.refuses_unused);
    connect();
  }

  IdVector<NodeId, bool> run() {
    paint_allowed();
    deny_what_follows();
    paint_between();
    paint_clear();
    return std::move(is_painted_);
  }

 private:
  using Nodes = IdVector<NodeId, std::vector<NodeId>>;

  [[nodiscard]] bool is(NodeId id, Paint paint) const { return paints_[id] == paint; }
  [[nodiscard]] bool may_be_painted(NodeId id) const {
    return !is_denied_[id] && (is(id, Paint::infer) || is(id, Paint::clear));
  }

  // Without a type for all, nothing is in 16 bits but what an override asks for.
  void forbid_allowed() {
    for (const NodeId id : graph_.nodes.ids()) {
      if (is(id, Paint::allow)) paints_[id] = Paint::infer;
    }
  }

  void take_overrides(const std::vector<PrecisionOverride>& rules, bool refuses_unused) {
    std::vector<bool> is_used(rules.size(), false);
    for (const NodeId id : graph_.nodes.ids()) {
      stop_point();
      const Node& node = graph_.node(id);
      const auto rule = std::find_if(rules.begin(), rules.end(), [&](const auto& each) {
        return names_node(each.match, node);
      });
      if (rule == rules.end() || is(id, Paint::none)) continue;
      const bool denies = rule->dtype == DType::f32;
      if (!denies && is(id, Paint::deny)) continue;
      paints_[id] = denies ? Paint::deny : Paint::allow;
      is_used[static_cast<size_t>(rule - rules.begin())] = true;
    }
    for (size_t i = 0; refuses_unused && i < rules.size(); ++i) {
      if (is_used[i]) continue;
      throw Error(
          ErrorCode::bad_config, kOption,
          "'" + rules[i].match + "' matches nothing that could be " + to_string(rules[i].dtype),
          "`snug explain --stages` shows the scopes, for example '" + an_example() + "'");
    }
  }
  [[nodiscard]] std::string an_example() const {
    for (const Node& node : graph_.nodes) {
      if (!node.scope.empty() && node.op->precision.paint == Paint::allow) return full_name(node);
    }
    return "*";
  }

  void connect() {
    for (const NodeId id : graph_.nodes.ids()) {
      stop_point();
      const Node& node = graph_.node(id);
      const std::vector<bool> is_narrow = narrow_inputs(graph_, node);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (!is_narrow[i]) continue;
        const NodeId producer = graph_.value(node.inputs[i]).producer;
        if (producer == kNone) continue;
        next_[producer].push_back(id);
        before_[id].push_back(producer);
      }
    }
  }

  // Every node that is reached from `starts` by `edges` through nodes that may be entered.
  template <class MayEnter>
  [[nodiscard]] IdVector<NodeId, bool> reach(std::vector<NodeId> starts,
                                             const std::vector<const Nodes*>& edges,
                                             const MayEnter& may_enter) const {
    IdVector<NodeId, bool> is_reached(graph_.nodes.size(), false);
    while (!starts.empty()) {
      const NodeId id = starts.back();
      starts.pop_back();
      for (const Nodes* direction : edges) {
        for (const NodeId other : (*direction)[id]) {
          if (is_reached[other] || !may_enter(other)) continue;
          is_reached[other] = true;
          starts.push_back(other);
        }
      }
    }
    return is_reached;
  }
  template <class Test>
  [[nodiscard]] std::vector<NodeId> nodes_where(const Test& test) const {
    std::vector<NodeId> found;
    for (const NodeId id : graph_.nodes.ids()) {
      if (test(id)) found.push_back(id);
    }
    return found;
  }
  [[nodiscard]] std::vector<NodeId> painted() const {
    return nodes_where([&](NodeId id) { return is_painted_[id]; });
  }
  void paint_all(const IdVector<NodeId, bool>& nodes) {
    for (const NodeId id : graph_.nodes.ids()) is_painted_[id] = is_painted_[id] || nodes[id];
  }

  void paint_allowed() {
    for (const NodeId id : graph_.nodes.ids()) is_painted_[id] = is(id, Paint::allow);
  }

  void deny_what_follows() {
    const std::vector<NodeId> counting =
        nodes_where([&](NodeId id) { return is(id, Paint::deny) || is(id, Paint::infer); });
    const IdVector<NodeId, bool> leads_to_one =
        reach(counting, {&before_}, [&](NodeId id) { return is(id, Paint::clear); });
    const std::vector<NodeId> denied = nodes_where([&](NodeId id) { return is(id, Paint::deny); });
    is_denied_ = reach(denied, {&next_}, [&](NodeId id) {
      return is(id, Paint::infer) || (is(id, Paint::clear) && leads_to_one[id]);
    });
    for (const NodeId id : denied) is_denied_[id] = true;
  }

  void paint_between() {
    const IdVector<NodeId, bool> behind =
        reach(painted(), {&next_}, [&](NodeId id) { return may_be_painted(id); });
    paint_all(
        reach(painted(), {&before_}, [&](NodeId id) { return may_be_painted(id) && behind[id]; }));
  }

  void paint_clear() {
    paint_all(reach(painted(), {&before_, &next_}, [&](NodeId id) {
      return is(id, Paint::clear) && may_be_painted(id) && !is_painted_[id];
    }));
  }

  const Graph& graph_;
  IdVector<NodeId, Paint> paints_;
  Nodes next_;    // readers of what the node makes, along operands that may be in 16 bits
  Nodes before_;  // the same edges the other way
  IdVector<NodeId, bool> is_denied_;
  IdVector<NodeId, bool> is_painted_;
};

/// Puts the casts in.
class HalfCasts {
 public:
  HalfCasts(Graph graph, DType half, const OpRegistry& registry)
      : half_(half), rewriter_(std::move(graph), registry) {
    for (const Value& value : rewriter_.graph().values) {
      own_.push_back(value.type.dtype);
      is_of_weights_.push_back(value.kind == ValueKind::parameter);
    }
  }

  Graph run(const IdVector<NodeId, bool>& is_painted) {
    rewriter_.for_each_node([&](Node& node, NodeId id) { rewrite(node, is_painted[id]); });
    const std::vector<ValueId> outputs = rewriter_.graph().outputs;
    for (const ValueId id : outputs) {
      const ValueId whole = stored_as(id, DType::f32, false);
      if (whole != id) rewriter_.replace_output(id, whole);
    }
    return rewriter_.take();
  }

 private:
  void rewrite(Node& node, bool is_half_node) {
    std::vector<bool> is_narrow(node.inputs.size(), false);
    if (is_half_node) is_narrow = narrow_inputs(rewriter_.graph(), node);
    const bool is_of_weights =
        node.phase == Phase::prologue ||
        (node.op->alias->kind == AliasKind::view && is_of_weights_[node.inputs[0]]);
    for (const ValueId output : node.outputs) is_of_weights_[output] = is_of_weights;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      ValueId& input = node.inputs[i];
      // What was in 16 bits before stays so: the network says that itself.
      if (input != kNone)
        input = stored_as(input, is_narrow[i] ? half_ : own_[input], is_of_weights_[input]);
    }
    if (is_half_node && node.op->precision.has_to)
      node.attrs.set("to", std::string(to_string(half_)));
    rewriter_.keep_retyped(node);
  }

  // One cast of a value for all that read it, within what is run again together.
  ValueId stored_as(ValueId id, DType dtype, bool is_of_weights) {
    if (rewriter_.type(id).dtype == dtype) return id;
    const auto [at, is_new] = casts_.try_emplace({id, dtype, rewriter_.parts()}, kNone);
    if (is_new) {
      const PhaseGuard phase(rewriter_, is_of_weights ? Phase::prologue : rewriter_.phase());
      at->second = cast(rewriter_, id, dtype);
    }
    return at->second;
  }

  DType half_;
  Rewriter rewriter_;
  IdVector<ValueId, DType> own_;  // by value of the graph before
  IdVector<ValueId, bool> is_of_weights_;
  std::map<std::tuple<ValueId, DType, std::vector<int32_t>>, ValueId> casts_;
};

}  // namespace

IdVector<NodeId, bool> paint(const Graph& graph, const MixedPrecision& precision) {
  return Painter(graph, precision).run();
}

Graph apply_mixed_precision(Graph graph, const MixedPrecision& precision,
                            const OpRegistry& registry) {
  const DType half = half_of(precision);
  const IdVector<NodeId, bool> is_painted = paint(graph, precision);
  return HalfCasts(std::move(graph), half, registry).run(is_painted);
}

}  // namespace snug::compile
