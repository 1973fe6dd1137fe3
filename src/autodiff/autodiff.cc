// SPDX-License-Identifier: Apache-2.0
#include "autodiff/autodiff.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/id_vector.h"
#include "base/stop.h"
#include "graph/node_classes.h"
#include "graph/text.h"
#include "ops/registry.h"
#include "snug/error.h"

namespace snug::autodiff {
namespace {

constexpr const char* kCast = "cast";

// Nodes that the rule builds for these wants, counted on a graph of this one node.
size_t count_nodes(const GraphBuilder& builder, const Node& node, const std::vector<bool>& has_dy,
                   const std::vector<bool>& wants) {
  GraphBuilder scratch(op_registry(), "count");
  std::map<ValueId, ValueId> copies;
  const auto copy = [&](ValueId id) -> ValueId {
    if (id == kNone) return kNone;
    const auto [at, is_new] = copies.try_emplace(id, kNone);
    if (is_new) at->second = scratch.input("v" + to_string(id), builder.type(id));
    return at->second;
  };
  Node copied = node;
  for (ValueId& id : copied.inputs) id = copy(id);
  for (ValueId& id : copied.outputs) id = copy(id);
  std::vector<ValueId> dy;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    dy.push_back(has_dy[i] ? scratch.input("dy" + std::to_string(i), builder.type(node.outputs[i]))
                           : kNone);
  }
  (void)std::get<VjpFn> (*node.op->gradient)({scratch, copied, dy, wants});
  return scratch.graph().nodes.size();
}

class ReverseMode {
 public:
  ReverseMode(GraphBuilder& builder, ValueId output, std::span<const ValueId> wrt,
              const GradientSink& sink, SinkEffect effect, const GradientAccumulator& accumulator)
      : builder_(builder),
        output_(output),
        sink_(sink),
        effect_(effect),
        classes_(builder.graph(), NeutralAttrs::count),
        wrt_(wrt.begin(), wrt.end()),
        nodes_(builder.graph().nodes.ids()) {
    const Graph& graph = builder_.graph();
    needs_.assign(graph.values.size(), false);
    reaches_.assign(graph.values.size(), false);
    pending_.assign(graph.values.size(), 0);
    find_copies();
    mark_path();
    if (!accumulator) return;
    for (const ValueId id : wrt_) {
      stop_point();
      const int uses = uses_left(id);
      const ValueId sum = uses > 0 ? accumulator(id, uses) : kNone;
      if (sum == kNone) continue;
      SNUG_CHECK(builder_.shape(sum) == builder_.shape(id), "an accumulator of another shape");
      accumulators_[id] = sum;
    }
  }

  [[nodiscard]] bool depends() const { return needs(output_); }

  std::map<ValueId, ValueId> run(ValueId seed) {
    gradients_[output_] = seed;
    const PhaseGuard phase(builder_, Phase::backward);
    const SharedText scope = builder_.scope();
    const std::vector<int32_t> parts = builder_.parts();
    if (wrt_.count(output_) != 0) finish(output_);
    for (const NodeId id : nodes_.backwards()) {
      stop_point();
      const Node node = builder_.graph().node(id);
      if (!is_on_path(node) || is_copy(node)) continue;
      builder_.set_scope(node.scope);
      builder_.set_parts(node.parts);
      visit(id, node);
    }
    builder_.set_scope(scope);
    builder_.set_parts(parts);
    std::map<ValueId, ValueId> result;
    for (ValueId id : wrt_) {
      const auto found = gradients_.find(id);
      if (found != gradients_.end()) result.insert(*found);
    }
    return result;
  }

 private:
  [[nodiscard]] bool needs(ValueId id) const { return id != kNone && needs_[id]; }

  [[nodiscard]] bool is_on_path(const Node& node) const {
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId id) { return needs(id) && reaches_[id]; });
  }

  // Casts of what is differentiated by: a weight in 16 bits. What flows into the copy is a gradient
  // of the weight itself, so that its uses are summed where the weight's are.
  void find_copies() {
    for (const Node& node : builder_.graph().nodes) {
      if (!node.op->is_conversion || wrt_.count(node.inputs[0]) == 0) continue;
      const ValueId copy = node.outputs[0];
      const bool is_asked_for = wrt_.count(copy) != 0 || copy == output_;
      if (!is_asked_for && is_floating(builder_.type(copy).dtype)) original_[copy] = node.inputs[0];
    }
  }
  [[nodiscard]] bool is_copy(const Node& node) const {
    return original_.count(node.outputs[0]) != 0;
  }
  [[nodiscard]] ValueId original(ValueId id) const {
    const auto found = original_.find(id);
    return found == original_.end() ? id : found->second;
  }

  // needs_: the value depends on a wrt value by floating-point inputs. reaches_: the output depends
  // on the value.
  void mark_path() {
    const Graph& graph = builder_.graph();
    for (ValueId id : wrt_) needs_[id] = true;
    for (const Node& node : graph.nodes) {
      stop_point();
      const bool depends = std::any_of(node.inputs.begin(), node.inputs.end(),
                                       [&](ValueId id) { return needs(id); });
      if (!depends) continue;
      for (ValueId id : node.outputs) {
        if (is_floating(graph.type(id).dtype)) needs_[id] = true;
      }
    }
    reaches_[output_] = true;
    for (const NodeId at : nodes_.backwards()) {
      stop_point();
      const Node& node = graph.node(at);
      if (!is_on_path(node)) continue;
      for (ValueId id : node.inputs) {
        if (!needs(id)) continue;
        reaches_[id] = true;
        if (!is_copy(node)) ++pending_[original(id)];
      }
    }
  }

  void visit(NodeId id, const Node& node) {
    std::vector<ValueId> dy;
    std::vector<bool> has_dy;
    for (ValueId output : node.outputs) {
      const auto found = gradients_.find(output);
      dy.push_back(found == gradients_.end() ? kNone : stored_as(node, output, found->second));
      has_dy.push_back(dy.back() != kNone);
    }
    std::vector<bool> wants;
    for (ValueId input : node.inputs) wants.push_back(needs(input));
    const bool has_any = std::any_of(dy.begin(), dy.end(), [](ValueId g) { return g != kNone; });
    const auto* rule = std::get_if<VjpFn>(&*node.op->gradient);
    if (has_any && rule == nullptr) {
      throw Error(ErrorCode::unsupported, describe(builder_.graph(), id),
                  "op " + *node.op->name + " has no gradient: " +
                      std::get<NotDifferentiable>(*node.op->gradient).reason);
    }
    if (!has_any) {
      settle(node, wants);
      return;
    }
    // Gradients that are accumulated or become final here go first where that costs no node: the
    // accumulation, or what the sink appends, then frees them, and the node's own operands, before
    // memory for the others is needed.
    std::vector<bool> first;
    std::vector<bool> second;
    for (size_t i = 0; i < wants.size(); ++i) {
      const bool goes_first = wants[i] && is_taken_up(node.inputs[i]);
      first.push_back(goes_first);
      second.push_back(wants[i] && !goes_first);
    }
    const auto any = [](const std::vector<bool>& flags) {
      return std::find(flags.begin(), flags.end(), true) != flags.end();
    };
    if (any(first) && any(second) && is_split_free(id, node, has_dy, first, second)) {
      const bool others_first = effect_ == SinkEffect::overwrites;
      apply(id, node, *rule, dy, others_first ? second : first);
      apply(id, node, *rule, dy, others_first ? first : second);
    } else {
      apply(id, node, *rule, dy, wants);
    }
  }

  // Whether the gradients in two goes take no more nodes than in one; asked once for equal nodes.
  bool is_split_free(NodeId id, const Node& node, const std::vector<bool>& has_dy,
                     const std::vector<bool>& first, const std::vector<bool>& second) {
    std::vector<size_t> key = {classes_.class_of(id)};
    for (const ValueId input : node.inputs)  // one value may be several inputs
      key.push_back(static_cast<size_t>(std::find(node.inputs.begin(), node.inputs.end(), input) -
                                        node.inputs.begin()));
    for (const auto* flags : {&has_dy, &first, &second}) {
      for (const bool flag : *flags) key.push_back(flag ? 1 : 0);
    }
    const auto [known, is_new] = is_split_free_.try_emplace(std::move(key), false);
    if (is_new) {
      std::vector<bool> both = first;
      for (size_t i = 0; i < both.size(); ++i) both[i] = first[i] || second[i];
      known->second = count_nodes(builder_, node, has_dy, first) +
                          count_nodes(builder_, node, has_dy, second) ==
                      count_nodes(builder_, node, has_dy, both);
    }
    return known->second;
  }

  void apply(NodeId id, const Node& node, const VjpFn& rule, std::span<const ValueId> dy,
             const std::vector<bool>& wants) {
    const std::vector<ValueId> found = rule({builder_, node, dy, wants});
    SNUG_CHECK(found.size() == node.inputs.size(), *node.op->name);
    for (size_t i = 0; i < found.size(); ++i) {
      if (!wants[i]) continue;
      const ValueId input = node.inputs[i];
      if (found[i] == kNone) {
        throw Error(ErrorCode::unsupported, describe(builder_.graph(), id),
                    "op " + *node.op->name + " has no gradient for its input " + std::to_string(i));
      }
      SNUG_CHECK(builder_.shape(found[i]) == builder_.shape(input),
                 *node.op->name + ": gradient of another shape");
      add_contribution(original(input), found[i]);
    }
    settle(node, wants);
  }

  // A gradient of a value in 16 bits may be a sum in f32 until a rule reads it; a cast and a view
  // take it as it is.
  ValueId stored_as(const Node& node, ValueId output, ValueId gradient) {
    const bool takes_any = node.op->is_conversion || node.op->alias->kind == AliasKind::view;
    return takes_any ? gradient : as_type(gradient, builder_.type(output).dtype);
  }
  ValueId as_type(ValueId id, DType dtype) {
    if (builder_.type(id).dtype == dtype) return id;
    return builder_.op1(kCast, {id}, {{"to", std::string(to_string(dtype))}});
  }

  // Gradients of what is differentiated by are of its type, those of a weight f32 whatever it is
  // stored as; others may be f32 for a value in 16 bits, and then their sum is.
  void add_contribution(ValueId input, ValueId gradient) {
    const bool is_weight = builder_.graph().value(input).kind == ValueKind::parameter;
    if (wrt_.count(input) != 0)
      gradient = as_type(gradient, is_weight ? DType::f32 : builder_.type(input).dtype);
    const auto sum = accumulators_.find(input);
    if (sum != accumulators_.end()) {
      sum->second = builder_.op1("accumulate", {sum->second, gradient});
      gradients_[input] = sum->second;
      return;
    }
    const auto [at, is_first] = gradients_.try_emplace(input, gradient);
    if (is_first) return;
    const bool is_mixed = builder_.type(at->second).dtype != builder_.type(gradient).dtype;
    if (is_mixed) at->second = as_type(at->second, DType::f32);
    if (is_mixed) gradient = as_type(gradient, DType::f32);
    at->second = builder_.op1("add", {at->second, gradient});
  }

  // Whether a contribution to this value dies at once.
  [[nodiscard]] bool is_taken_up(ValueId id) const {
    id = original(id);
    return accumulators_.count(id) != 0 || (sink_ && wrt_.count(id) != 0 && uses_left(id) == 1);
  }

  [[nodiscard]] int uses_left(ValueId id) const { return pending_[id]; }

  // These inputs of this node have been dealt with; reports those that wait for nothing else.
  void settle(const Node& node, const std::vector<bool>& wants) {
    for (size_t i = 0; i < wants.size(); ++i) {
      if (!wants[i]) continue;
      const ValueId input = original(node.inputs[i]);
      if (--pending_[input] == 0) finish(input);
    }
  }

  void finish(ValueId id) {
    if (!sink_ || wrt_.count(id) == 0 || gradients_.count(id) == 0) return;
    const PhaseGuard phase(builder_, builder_.phase());
    const ScopeRestore scope(builder_);
    sink_(id, gradients_.at(id));
  }

  // What the sink sets does not leak into the following nodes.
  struct ScopeRestore {
    explicit ScopeRestore(GraphBuilder& b) : builder(b), before(b.scope()) {}
    ~ScopeRestore() { builder.set_scope(before); }
    ScopeRestore(const ScopeRestore&) = delete;
    ScopeRestore& operator=(const ScopeRestore&) = delete;
    GraphBuilder& builder;
    SharedText before;
  };

  GraphBuilder& builder_;
  ValueId output_;
  const GradientSink& sink_;
  SinkEffect effect_;
  NodeClasses classes_;
  std::map<std::vector<size_t>, bool> is_split_free_;
  std::set<ValueId> wrt_;
  IdRange<NodeId> nodes_;  // of the forward part
  IdVector<ValueId, bool> needs_;
  IdVector<ValueId, bool> reaches_;
  IdVector<ValueId, int>
      pending_;  // by value: uses on the path whose contribution is still to come
  std::map<ValueId, ValueId> gradients_;
  std::map<ValueId, ValueId> accumulators_;  // their newest versions
  std::map<ValueId, ValueId> original_;      // of a copy in another type
};

}  // namespace

std::map<ValueId, ValueId> append_gradients(GraphBuilder& builder, ValueId output, ValueId seed,
                                            std::span<const ValueId> wrt,
                                            const GradientSink& on_gradient, SinkEffect effect,
                                            const GradientAccumulator& accumulator) {
  const auto fail = [&](const std::string& message) {
    throw Error(ErrorCode::invalid_graph, builder.graph().name, "gradients: " + message);
  };
  const auto is_value = [&](ValueId id) { return builder.graph().has(id); };
  if (!is_value(output)) fail("the output is not a value of this graph");
  const TensorType type = builder.type(output);
  if (!is_floating(type.dtype)) fail("the output is " + to_string(type) + ", not floating-point");
  if (seed == kNone && element_count(type) != 1)
    fail("an output of type " + to_string(type) + " needs a seed");
  if (seed != kNone && (!is_value(seed) || builder.type(seed) != type)) {
    fail("the seed must be a value of type " + to_string(type));
  }
  for (ValueId id : wrt) {
    if (!is_value(id)) fail("a value to differentiate by is not of this graph");
    if (!is_floating(builder.type(id).dtype)) {
      fail("'" + builder.graph().value(id).name + "' is " + to_string(builder.type(id)) +
           " and has no gradient");
    }
  }
  ReverseMode reverse(builder, output, wrt, on_gradient, effect, accumulator);
  if (!reverse.depends()) return {};
  if (seed == kNone) {
    const PhaseGuard phase(builder, Phase::backward);
    seed = builder.op1("fill", {}, {{"value", 1.0}, {"shape", type.shape}});
  }
  return reverse.run(seed);
}

}  // namespace snug::autodiff
