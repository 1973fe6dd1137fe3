// SPDX-License-Identifier: Apache-2.0
#include "compile/programs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "autodiff/autodiff.h"
#include "base/check.h"
#include "base/stop.h"
#include "compile/pack_weights.h"
#include "compile/pipeline.h"
#include "compile/split_prologue.h"
#include "graph/builder.h"
#include "ops/embedding/embedding.h"
#include "optim/optimizer.h"

namespace snug::train {
namespace {

// Of several lengths the text form says which a program has.
std::string graph_name(const std::string& what, const Lengths& lengths) {
  return lengths.has_names() ? what + ": " + to_string(lengths) : what;
}

/// The update of each parameter as its group wants it.
class Updates {
 public:
  /// Declares what is fed to the groups of these weights. `all`: the names of the others too.
  /// `tables` are those of embeddings.
  Updates(GraphBuilder& builder, const Recipe& recipe, const std::vector<std::string>& all,
          const std::vector<ValueId>& updated, std::set<std::string> tables)
      : builder_(builder),
        recipe_(recipe),
        groups_(optim::assign_groups(all, recipe.groups)),
        tables_(std::move(tables)) {
    std::vector<std::string> names;
    std::vector<optim::StateOwner> owners;
    std::set<size_t> used;
    for (const ValueId weight : updated) {
      stop_point();
      const Value& value = builder.graph().value(weight);
      used.insert(groups_.members.at(value.name).rate);
      names.push_back(value.name);
      owners.push_back({value.name, value.type.shape, tables_.count(value.name) != 0});
    }
    optim::check_groups(recipe.groups, names);
    optim::check_storage(recipe.states, recipe.optimizer, all, owners);
    for (const size_t rate : used)
      hypers_[rate] = builder.input(hyper_name(rate), {DType::f32, {4}});
  }
  void append(ValueId weight, ValueId gradient, ValueId coefficient) {
    const std::string name = builder_.graph().value(weight).name;
    const optim::GroupMember& member = groups_.members.at(name);
    const std::optional<StateCodec> codec = optim::codec_for(
        recipe_.states, recipe_.optimizer, name, builder_.shape(weight), tables_.count(name) != 0);
    const bool is_drawn = codec || builder_.type(weight).dtype != DType::f32;
    (void)optim::append_update(builder_, weight, gradient, hypers_.at(member.rate), coefficient,
                               recipe_.optimizer,
                               {.weight_decay = member.weight_decay,
                                .codec = codec,
                                .rng = is_drawn ? random_key() : kNone});
  }

 private:
  // Looked for once: there are as many updates as weights.
  ValueId random_key() {
    if (rng_ == kNone) rng_ = random_key_of(builder_);
    return rng_;
  }

  GraphBuilder& builder_;
  const Recipe& recipe_;
  optim::ParameterGroups groups_;
  std::set<std::string> tables_;
  std::map<size_t, ValueId> hypers_;
  ValueId rng_ = kNone;
};

/// A gradient that was accumulated in a state; it is zero between two updates.
void append_zero(GraphBuilder& builder, ValueId gradient) {
  if (builder.graph().is_resident(storage_of(builder.graph(), gradient)))
    builder.op1("set_zero", {gradient});
}

/// What undoes the scale of the loss; kNone where it has none.
ValueId inverse_scale(GraphBuilder& builder, const Recipe& recipe) {
  if (recipe.scaling == optim::LossScaling::none) return kNone;
  return builder.input(kLossUnscaleName, {DType::f32, {}});
}

/// The forward part of training: a weight may be there that evaluation does not have, such as that
/// of an auxiliary loss. Its rows are a number that networks were built for when they were checked.
Graph build_forward_graph(const NetworkDef& network) {
  constexpr int64_t kAnyRows = 3;
  GraphBuilder builder(ops_of(network), "forward");
  (void)network.build(builder, {.rows = kAnyRows, .lengths = network.shortest, .training = true});
  return run_pipeline(builder.take(), ops_of(network));
}

/// Norm of all gradients, clipping, then every update: gradients live until here.
void append_clipped_updates(GraphBuilder& builder, const Recipe& recipe,
                            const std::vector<std::string>& all,
                            const std::set<std::string>& tables,
                            const std::vector<ValueId>& weights,
                            const std::vector<ValueId>& gradients) {
  const PhaseGuard phase(builder, Phase::update);
  const ValueId unscale = inverse_scale(builder, recipe);
  std::vector<ValueId> squares;
  for (const ValueId gradient : gradients)
    squares.push_back(optim::append_squares(builder, gradient, unscale));
  const optim::Clip clip = optim::append_clip(builder, squares, recipe.max_grad_norm, unscale);
  builder.mark_output(clip.norm, kGradNormName);
  Updates updates(builder, recipe, all, weights, tables);
  const bool is_multiplied = recipe.max_grad_norm > 0 || unscale != kNone;
  const ValueId coefficient = is_multiplied ? clip.coefficient : kNone;
  for (size_t i = 0; i < weights.size(); ++i) updates.append(weights[i], gradients[i], coefficient);
  for (const ValueId gradient : gradients) append_zero(builder, gradient);
}

}  // namespace

std::vector<Value> weights_of(const NetworkDef& network) {
  std::vector<Value> weights;
  for (Value& value : build_forward_graph(network).values) {
    if (is_of_model(value.kind)) weights.push_back(std::move(value));
  }
  return weights;
}

std::vector<Value> parameters_of(const NetworkDef& network) {
  std::vector<Value> parameters = weights_of(network);
  std::erase_if(parameters, [](const Value& value) { return value.kind != ValueKind::parameter; });
  return parameters;
}

std::vector<std::string> parameter_names(const NetworkDef& network) {
  std::vector<std::string> names;
  for (const Value& value : parameters_of(network)) names.push_back(value.name);
  return names;
}

std::string hyper_name(size_t rate) {
  return rate == 0 ? kHyperName : kHyperName + ("." + std::to_string(rate));
}

Graph build_eval_graph(const NetworkDef& network, const BatchShape& shape, bool has_prologue) {
  GraphBuilder builder(ops_of(network), graph_name("evaluate", shape.lengths));
  (void)network.build(builder, {.rows = shape.rows, .lengths = shape.lengths, .training = false});
  Graph graph = run_pipeline(builder.take(), ops_of(network));
  return has_prologue ? split_prologue(std::move(graph)).main : graph;
}

namespace {

bool accumulates_gradients(const Recipe& recipe, int64_t micro_batches) {
  return micro_batches > 1 || !recipe.updates;
}

// The prologue among its nodes.
Graph whole_train_graph(const NetworkDef& network, const Recipe& recipe, const BatchShape& shape,
                        int64_t micro_batches, const PipelineHooks& hooks = {}) {
  const bool accumulates = accumulates_gradients(recipe, micro_batches);
  GraphBuilder builder(ops_of(network), graph_name("train", shape.lengths));
  const ValueId loss = network.build(builder, {.rows = shape.rows,
                                               .lengths = shape.lengths,
                                               .training = true,
                                               .micro_batches = micro_batches});
  if (hooks.after_pass) hooks.after_pass("forward", builder.graph());
  std::map<std::string, ValueId> by_name;
  std::vector<std::string> names;
  for (size_t i = 0; i < builder.graph().values.size(); ++i) {
    stop_point();
    const Value& value = builder.graph().values[i];
    if (value.kind != ValueKind::parameter) continue;
    names.push_back(value.name);
    by_name[value.name] = static_cast<ValueId>(i);
  }
  std::vector<ValueId> weights;
  for (const std::string& name : trainable_names(names, recipe.freeze, network.is_frozen))
    weights.push_back(by_name[name]);

  const std::set<std::string> tables = embedding_tables(builder.graph());
  const bool updates_at_once = !accumulates && (recipe.has_two_passes || !recipe.waits_for_norm());
  std::vector<ValueId> updated;
  std::vector<ValueId> gradients;
  std::vector<ValueId> squares;
  std::optional<Updates> updates;
  ValueId unscale = kNone;
  ValueId factor = kNone;
  if (updates_at_once) {
    updates.emplace(builder, recipe, names, weights, tables);
    unscale = inverse_scale(builder, recipe);
    factor = recipe.has_two_passes ? builder.input(kClipFactorName, {DType::f32, {}}) : unscale;
  }
  const SinkEffect effect = updates_at_once ? SinkEffect::overwrites : SinkEffect::reads;
  // In place over the micro-batches, and over the uses of a weight that is used more than once: the
  // gradient of a recurrent weight has no temporary. Any other is made in the arena.
  const GradientAccumulator accumulator = [&](ValueId weight, int uses) {
    if (!accumulates && uses == 1) return kNone;
    const std::string name = builder.graph().value(weight).name;
    return builder.state(kGradientPrefix + name, {recipe.gradients, builder.shape(weight)});
  };
  const GradientSink sink = [&](ValueId weight, ValueId gradient) {
    if (accumulates) return;
    updated.push_back(weight);
    gradients.push_back(gradient);
    if (!updates_at_once) return;
    // The gradient dies here: its square joins the norm for the log, then the weight moves.
    const PhaseGuard phase(builder, Phase::update);
    squares.push_back(optim::append_squares(builder, gradient, unscale));
    updates->append(weight, gradient, factor);
    append_zero(builder, gradient);
  };
  const ValueId seed = recipe.scaling == optim::LossScaling::none
                           ? kNone
                           : builder.input(kLossScaleName, {DType::f32, {}});
  append_gradients(builder, loss, seed, weights, sink, effect, accumulator);
  if (updates_at_once) {
    const PhaseGuard phase(builder, Phase::update);
    const double max_norm = recipe.has_two_passes ? recipe.max_grad_norm : 0;
    const optim::Clip clip = optim::append_clip(builder, squares, max_norm, unscale);
    builder.mark_output(clip.norm, kGradNormName);
    if (recipe.has_two_passes) builder.mark_output(clip.coefficient, kFoundFactorName);
  } else if (!accumulates) {
    append_clipped_updates(builder, recipe, names, tables, updated, gradients);
  }
  if (hooks.after_pass) hooks.after_pass("backward", builder.graph());
  Graph graph = run_pipeline(builder.take(), ops_of(network), hooks);
  if (recipe.packed.empty()) return graph;
  graph = pack_weights(std::move(graph), ops_of(network), recipe.packed);
  if (hooks.after_pass) hooks.after_pass("pack_weights", graph);
  return graph;
}

}  // namespace

Graph build_train_graph(const NetworkDef& network, const Recipe& recipe, const BatchShape& shape,
                        int64_t micro_batches, const PipelineHooks& hooks) {
  Graph graph = whole_train_graph(network, recipe, shape, micro_batches, hooks);
  if (!accumulates_gradients(recipe, micro_batches)) return graph;
  graph = split_prologue(std::move(graph)).main;
  if (hooks.after_pass) hooks.after_pass("split_prologue", graph);
  return graph;
}

Graph build_prologue_graph(const NetworkDef& network, const Recipe& recipe,
                           const Lengths& longest) {
  constexpr int64_t kAnySplit = 2;
  // What only longer programs read of a weight is packed, too.
  const Lengths& lengths = recipe.packed.empty() ? network.shortest : longest;
  Graph graph =
      split_prologue(whole_train_graph(network, recipe, {1, lengths}, kAnySplit)).prologue;
  const auto packed = std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return *node.op->name == "pack_weight";
  });
  SNUG_CHECK(std::cmp_equal(packed, recipe.packed.weights.size()),
             "a weight is read in panels that nobody packs");
  return graph;
}

Graph kept_buffers(const Graph& train, const Recipe& recipe) {
  Graph places;
  if (recipe.scaling != optim::LossScaling::dynamic && !recipe.has_two_passes) return places;
  for (const Node& node : train.nodes) {
    if (node.op->alias->kind != AliasKind::must_overwrite) continue;
    for (const ValueId output : node.outputs) {
      const Value& moved = train.value(storage_of(train, output));
      if (moved.kind != ValueKind::buffer) continue;
      places.values.push_back(
          {.type = moved.type, .kind = ValueKind::input, .name = kKeptBufferPrefix + moved.name});
    }
  }
  return places;
}

bool reads_prologue(const Graph& graph) {
  return std::any_of(graph.values.begin(), graph.values.end(),
                     [](const Value& value) { return value.kind == ValueKind::cached; });
}

bool makes_all(const Graph& prologue, const Graph& program) {
  std::set<std::string> made;
  for (const Value& value : prologue.values) {
    if (value.kind == ValueKind::cached) made.insert(value.name);
  }
  return std::all_of(program.values.begin(), program.values.end(), [&](const Value& value) {
    return value.kind != ValueKind::cached || made.contains(value.name);
  });
}

Graph build_update_graph(const NetworkDef& network, const Recipe& recipe) {
  GraphBuilder builder(ops_of(network), "update");
  std::vector<std::string> names;
  std::map<std::string, TensorType> types;
  const Graph forward = build_forward_graph(network);
  for (const Value& value : forward.values) {
    stop_point();
    if (value.kind != ValueKind::parameter) continue;
    names.push_back(value.name);
    types[value.name] = value.type;
  }
  std::vector<ValueId> weights;
  std::vector<ValueId> gradients;
  for (const std::string& name : trainable_names(names, recipe.freeze, network.is_frozen)) {
    stop_point();
    weights.push_back(builder.parameter(name, types[name]));
    gradients.push_back(
        builder.state(kGradientPrefix + name, {recipe.gradients, types[name].shape}));
  }
  append_clipped_updates(builder, recipe, names, embedding_tables(forward), weights, gradients);
  return run_pipeline(builder.take(), ops_of(network));
}

}  // namespace snug::train
