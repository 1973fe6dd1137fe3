// SPDX-License-Identifier: Apache-2.0
// Ops of the update phase: accumulation of gradients, their norm, and optimizer steps, in the
// storages of weights and states. None is differentiable. t is the number of the update, counted
// from 1; hyper is f32[4] = {learning_rate, 1 - beta1^t, 1 - beta2^t, 0}, fed once an update, so
// that a step's graph never changes.
//
// accumulate(acc, x) -> acc + x                                         over acc
// set_zero(x) -> 0                                                      over x
// global_norm(s...) {max_norm=0} -> norm = sqrt(sum of s), coefficient  s are sums of squares,
// f32[] each
//   coefficient = min(1, max_norm / (norm + 1e-6)) where max_norm > 0, else 1
//   (torch.nn.utils.clip_grad_norm_). A norm that is not finite passes through and the coefficient
//   is NaN, so that nothing is trained on it unnoticed.
// adamw(w, g, m, v, hyper, coefficient?) {beta1, beta2, eps, weight_decay} -> w, m, v    over w, m,
// v
//   g *= coefficient; w -= lr * weight_decay * w; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 -
//   beta2) g^2; w -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//   (torch.optim.AdamW)
// sgd(w, g, hyper, coefficient?) {weight_decay} -> w                      over w
//   g = g * coefficient + weight_decay * w; w -= lr * g                   (torch.optim.SGD)
// sgd_momentum(w, g, buffer, hyper, coefficient?) {momentum, nesterov, weight_decay} -> w, buffer
// over w, buffer
//   g as above; buffer = momentum * buffer + g; w -= lr * (nesterov ? g + momentum * buffer :
//   buffer)
#pragma once

#include <span>

#include "graph/builder.h"

namespace snug {

[[nodiscard]] ValueId accumulate(GraphBuilder& builder, ValueId acc, ValueId x);
[[nodiscard]] ValueId set_zero(GraphBuilder& builder, ValueId x);

struct GlobalNormOutputs {
  ValueId norm = kNone;
  ValueId coefficient = kNone;
};
[[nodiscard]] GlobalNormOutputs global_norm(GraphBuilder& builder,
                                            std::span<const ValueId> sums_of_squares,
                                            double max_norm = 0);

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};
struct AdamWOutputs {
  ValueId w = kNone;
  ValueId m = kNone;
  ValueId v = kNone;
};
[[nodiscard]] AdamWOutputs adamw(GraphBuilder& builder, ValueId w, ValueId g, ValueId m, ValueId v,
                                 ValueId hyper, ValueId coefficient, const AdamWOptions& options);

[[nodiscard]] ValueId sgd(GraphBuilder& builder, ValueId w, ValueId g, ValueId hyper,
                          ValueId coefficient, double weight_decay = 0);

struct SgdMomentumOptions {
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
};
struct SgdMomentumOutputs {
  ValueId w = kNone;
  ValueId buffer = kNone;
};
[[nodiscard]] SgdMomentumOutputs sgd_momentum(GraphBuilder& builder, ValueId w, ValueId g,
                                              ValueId buffer, ValueId hyper, ValueId coefficient,
                                              const SgdMomentumOptions& options);

}  // namespace snug
