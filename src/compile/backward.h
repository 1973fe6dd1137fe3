// SPDX-License-Identifier: Apache-2.0
// The backward part of a training program, and what becomes of its gradients: they are added up in
// "grad." states (where an update has more than one micro-batch), or each moves its weight as it
// dies, or all wait for their norm.
#pragma once

#include "compile/forward.h"
#include "compile/recipe.h"

namespace snug::compile {

/// Whether a training program ends with sums of gradients, and another one updates.
[[nodiscard]] inline bool accumulates_gradients(const Recipe& recipe, int64_t micro_batches) {
  return micro_batches > 1 || !recipe.updates;
}

/// Behind a forward part, whose loss is the output "loss" and whose weights are `weights`.
[[nodiscard]] Graph append_backward(Graph forward, const Recipe& recipe,
                                    const std::vector<Weight>& weights, int64_t micro_batches,
                                    const OpRegistry& registry);

/// Places for what the buffers that a training program moves were before an update that may be
/// skipped behind its forward part; empty where none is.
[[nodiscard]] Graph kept_buffers(const Graph& train, const Recipe& recipe);

}  // namespace snug::compile
