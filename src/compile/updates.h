// SPDX-License-Identifier: Apache-2.0
// How weights move: their updates by any optimizer of the list, each as its group wants it, and
// clipping. What the training program and the update program share.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compile/forward.h"
#include "compile/recipe.h"

namespace snug::compile {

/// The parameters that a recipe trains, in order. Throws what trainable_names() throws.
[[nodiscard]] std::vector<Weight> trained_of(const std::vector<Weight>& weights,
                                             const Recipe& recipe);

/// Appends the update of one parameter after the other.
class Updates {
 public:
  /// Declares what is fed to the groups of those that are `updated`. `weights` are all.
  Updates(GraphBuilder& builder, const Recipe& recipe, const std::vector<Weight>& weights,
          const std::vector<ValueId>& updated);
  void append(ValueId weight, ValueId gradient, ValueId coefficient);

 private:
  [[nodiscard]] bool is_table(const std::string& name) const;
  [[nodiscard]] ValueId random_key();

  GraphBuilder& builder_;
  const Recipe& recipe_;
  optim::ParameterGroups groups_;
  std::map<std::string, const Weight*> weights_;
  std::map<size_t, ValueId> hypers_;
  ValueId rng_ = kNone;
};

/// A gradient that was accumulated in a state is zero between two updates.
void append_zero(GraphBuilder& builder, ValueId gradient);
/// What undoes the scale of the loss; kNone where it has none.
[[nodiscard]] ValueId inverse_scale(GraphBuilder& builder, const Recipe& recipe);
/// Norm of all gradients, clipping, then every update: gradients live until here.
void append_clipped_updates(GraphBuilder& builder, const Recipe& recipe,
                            const std::vector<Weight>& weights, const std::vector<ValueId>& updated,
                            const std::vector<ValueId>& gradients);

/// The program of an update of several micro-batches, for an empty graph: clipping, updates and
/// zeroing of the accumulated gradients.
[[nodiscard]] Graph append_update_program(Graph graph, const Recipe& recipe,
                                          const std::vector<Weight>& weights,
                                          const OpRegistry& registry);

}  // namespace snug::compile
