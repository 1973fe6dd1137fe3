// SPDX-License-Identifier: Apache-2.0
#include "compile/backward.h"

#include <map>
#include <optional>
#include <utility>

#include "autodiff/autodiff.h"
#include "base/check.h"
#include "base/stop.h"
#include "compile/updates.h"
#include "compile/value_names.h"
#include "graph/storage.h"

namespace snug::compile {
namespace {

class Backward {
 public:
  Backward(GraphBuilder& builder, const Recipe& recipe, const std::vector<Weight>& weights,
           int64_t micro_batches)
      : builder_(builder),
        recipe_(recipe),
        weights_(weights),
        accumulates_(accumulates_gradients(recipe, micro_batches)),
        updates_at_once_(!accumulates_ && (recipe.has_two_passes || !recipe.waits_for_norm())),
        trained_(ids_of(trained_of(weights, recipe))) {}

  void append() {
    const ValueId loss = builder_.graph().find(kLossName);
    SNUG_CHECK(loss != kNone, "a training program without a loss");
    if (updates_at_once_) {
      updates_.emplace(builder_, recipe_, weights_, trained_);
      unscale_ = inverse_scale(builder_, recipe_);
      factor_ =
          recipe_.has_two_passes ? builder_.input(kClipFactorName, {DType::f32, {}}) : unscale_;
    }
    const ValueId seed = recipe_.scaling == optim::LossScaling::none
                             ? kNone
                             : builder_.input(kLossScaleName, {DType::f32, {}});
    autodiff::append_gradients(
        builder_, loss, seed, trained_,
        [this](ValueId weight, ValueId gradient) { take(weight, gradient); },
        updates_at_once_ ? autodiff::SinkEffect::overwrites : autodiff::SinkEffect::reads,
        [this](ValueId weight, int uses) { return sum_for(weight, uses); });
    if (updates_at_once_)
      append_norm();
    else if (!accumulates_)
      append_clipped_updates(builder_, recipe_, weights_, updated_, gradients_);
  }

 private:
  [[nodiscard]] std::vector<ValueId> ids_of(const std::vector<Weight>& trained) const {
    std::map<std::string, ValueId> by_name;
    for (const ValueId id : builder_.graph().values.ids()) {
      stop_point();
      const Value& value = builder_.graph().values[id];
      if (value.kind == ValueKind::parameter) by_name[value.name] = id;
    }
    std::vector<ValueId> ids;
    for (const Weight& weight : trained) ids.push_back(by_name.at(weight.value.name));
    return ids;
  }

  // In place over the micro-batches, and over the uses of a weight that is used more than once: the
  // gradient of a recurrent weight has no temporary. Any other is made in the arena.
  ValueId sum_for(ValueId weight, int uses) {
    if (!accumulates_ && uses == 1) return kNone;
    const std::string name = builder_.graph().value(weight).name;
    return builder_.state(kGradientPrefix + name, {recipe_.gradients, builder_.shape(weight)});
  }

  void take(ValueId weight, ValueId gradient) {
    if (accumulates_) return;
    updated_.push_back(weight);
    gradients_.push_back(gradient);
    if (!updates_at_once_) return;
    // The gradient dies here: its square joins the norm for the log, then the weight moves.
    const PhaseGuard phase(builder_, Phase::update);
    squares_.push_back(optim::append_squares(builder_, gradient, unscale_));
    updates_->append(weight, gradient, factor_);
    append_zero(builder_, gradient);
  }

  void append_norm() {
    const PhaseGuard phase(builder_, Phase::update);
    const double max_norm = recipe_.has_two_passes ? recipe_.max_grad_norm : 0;
    const optim::Clip clip = optim::append_clip(builder_, squares_, max_norm, unscale_);
    builder_.mark_output(clip.norm, kGradNormName);
    if (recipe_.has_two_passes) builder_.mark_output(clip.coefficient, kFoundFactorName);
  }

  GraphBuilder& builder_;
  const Recipe& recipe_;
  const std::vector<Weight>& weights_;
  bool accumulates_;
  bool updates_at_once_;
  std::vector<ValueId> trained_;
  std::vector<ValueId> updated_;  // in the order of their gradients
  std::vector<ValueId> gradients_;
  std::vector<ValueId> squares_;
  std::optional<Updates> updates_;
  ValueId unscale_ = kNone;
  ValueId factor_ = kNone;
};

}  // namespace

Graph append_backward(Graph forward, const Recipe& recipe, const std::vector<Weight>& weights,
                      int64_t micro_batches, const OpRegistry& registry) {
  GraphBuilder builder(registry, std::move(forward));
  Backward(builder, recipe, weights, micro_batches).append();
  return builder.take();
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

}  // namespace snug::compile
