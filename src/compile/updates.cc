// SPDX-License-Identifier: Apache-2.0
#include "compile/updates.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "base/stop.h"
#include "compile/value_names.h"
#include "graph/storage.h"

namespace snug::compile {
namespace {

std::vector<std::string> names_of(const std::vector<Weight>& weights) {
  std::vector<std::string> names;
  for (const Weight& weight : weights) {
    if (weight.is_parameter()) names.push_back(weight.value.name);
  }
  return names;
}

}  // namespace

std::vector<Weight> trained_of(const std::vector<Weight>& weights, const Recipe& recipe) {
  std::set<std::string> frozen;
  for (const Weight& weight : weights) {
    if (weight.is_frozen) frozen.insert(weight.value.name);
  }
  const std::vector<std::string> names =
      trainable_names(names_of(weights), recipe.freeze,
                      [&](const std::string& name) { return frozen.contains(name); });
  const std::set<std::string> is_trained(names.begin(), names.end());
  std::vector<Weight> trained;
  std::copy_if(weights.begin(), weights.end(), std::back_inserter(trained),
               [&](const Weight& weight) {
                 return weight.is_parameter() && is_trained.contains(weight.value.name);
               });
  return trained;
}

Updates::Updates(GraphBuilder& builder, const Recipe& recipe, const std::vector<Weight>& weights,
                 const std::vector<ValueId>& updated)
    : builder_(builder),
      recipe_(recipe),
      groups_(optim::assign_groups(names_of(weights), recipe.groups)) {
  for (const Weight& weight : weights) weights_[weight.value.name] = &weight;
  std::vector<std::string> names;
  std::vector<optim::StateOwner> owners;
  std::set<size_t> used;
  for (const ValueId id : updated) {
    stop_point();
    const Value& value = builder.graph().value(id);
    used.insert(groups_.members.at(value.name).rate);
    names.push_back(value.name);
    owners.push_back({value.name, value.type.shape, is_table(value.name)});
  }
  optim::check_groups(recipe.groups, names);
  optim::check_storage(recipe.states, recipe.optimizer, names_of(weights), owners);
  for (const size_t rate : used) hypers_[rate] = builder.input(hyper_name(rate), {DType::f32, {4}});
}

bool Updates::is_table(const std::string& name) const { return weights_.at(name)->is_table; }

void Updates::append(ValueId weight, ValueId gradient, ValueId coefficient) {
  const std::string name = builder_.graph().value(weight).name;
  const optim::GroupMember& member = groups_.members.at(name);
  const std::optional<StateCodec> codec = optim::codec_for(recipe_.states, recipe_.optimizer, name,
                                                           builder_.shape(weight), is_table(name));
  const bool is_drawn = codec || builder_.type(weight).dtype != DType::f32;
  (void)optim::append_update(builder_, weight, gradient, hypers_.at(member.rate), coefficient,
                             recipe_.optimizer,
                             {.weight_decay = member.weight_decay,
                              .codec = codec,
                              .rng = is_drawn ? random_key() : kNone});
}

// Looked for once: there are as many updates as weights.
ValueId Updates::random_key() {
  if (rng_ == kNone) rng_ = random_key_of(builder_);
  return rng_;
}

void append_zero(GraphBuilder& builder, ValueId gradient) {
  if (builder.graph().is_resident(storage_of(builder.graph(), gradient)))
    builder.op1("set_zero", {gradient});
}

ValueId inverse_scale(GraphBuilder& builder, const Recipe& recipe) {
  if (recipe.scaling == optim::LossScaling::none) return kNone;
  return builder.input(kLossUnscaleName, {DType::f32, {}});
}

void append_clipped_updates(GraphBuilder& builder, const Recipe& recipe,
                            const std::vector<Weight>& weights, const std::vector<ValueId>& updated,
                            const std::vector<ValueId>& gradients) {
  const PhaseGuard phase(builder, Phase::update);
  const ValueId unscale = inverse_scale(builder, recipe);
  std::vector<ValueId> squares;
  for (const ValueId gradient : gradients)
    squares.push_back(optim::append_squares(builder, gradient, unscale));
  const optim::Clip clip = optim::append_clip(builder, squares, recipe.max_grad_norm, unscale);
  builder.mark_output(clip.norm, kGradNormName);
  Updates updates(builder, recipe, weights, updated);
  const bool is_multiplied = recipe.max_grad_norm > 0 || unscale != kNone;
  const ValueId coefficient = is_multiplied ? clip.coefficient : kNone;
  for (size_t i = 0; i < updated.size(); ++i) updates.append(updated[i], gradients[i], coefficient);
  for (const ValueId gradient : gradients) append_zero(builder, gradient);
}

Graph append_update_program(Graph graph, const Recipe& recipe, const std::vector<Weight>& weights,
                            const OpRegistry& registry) {
  GraphBuilder builder(registry, std::move(graph));
  std::vector<ValueId> updated;
  std::vector<ValueId> gradients;
  for (const Weight& weight : trained_of(weights, recipe)) {
    stop_point();
    const Value& value = weight.value;
    updated.push_back(builder.parameter(value.name, value.type));
    gradients.push_back(builder.state(kGradientPrefix + value.name,
                                      TensorType{recipe.gradients, value.type.shape}));
  }
  append_clipped_updates(builder, recipe, weights, updated, gradients);
  return builder.take();
}

}  // namespace snug::compile
