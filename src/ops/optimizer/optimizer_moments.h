// SPDX-License-Identifier: Apache-2.0
// What the optimizers have in common that keep a mean m of the gradients and a mean v of their
// squares: Adam, AdamW, LAMB.
//   hyper = {lr, 1 - beta1^t, 1 - beta2^t, skip}
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
#pragma once

#include <string>

#include "ops/optimizer/optimizer_def.h"
#include "ops/optimizer/optimizer_step.h"

namespace snug {

/// What the weight decay changes: the gradient (Adam) or the weight itself (AdamW).
enum class Decay : uint8_t { of_gradient, of_weight };

/// NAME(w, g, m, v, rng?, hyper, coefficient?) {beta1, beta2, eps, weight_decay} -> w, m, v, at the
/// cost of one pass.
[[nodiscard]] StepOp moments_op(const std::string& name);
/// The attributes of that op.
[[nodiscard]] Attrs moments_attrs(const HyperValues& settings, const StepTarget& target);
/// With the hyper-parameters beta1, beta2 and epsilon, of which the last has this default.
[[nodiscard]] Optimizer moments_optimizer(const std::string& name, double epsilon,
                                          StepNode (*step)(const HyperValues&, const StepTarget&));

}  // namespace snug
