// SPDX-License-Identifier: Apache-2.0
// torch.optim.AdamW.
//
// adamw(w, g, m, v, rng?, hyper, coefficient?, row_of?) {beta1, beta2, eps, weight_decay} -> w, m,
// v
//   hyper = {lr, 1 - beta1^t, 1 - beta2^t, skip}
//   g *= coefficient; w -= lr * weight_decay * w; m = beta1 m + (1 - beta1) g;
//   v = beta2 v + (1 - beta2) g^2;
//   w -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
#include "ops/optimizer/optimizer_moments.h"

namespace snug {
namespace {

StepNode step_of_adamw(const HyperValues& settings, const StepTarget& target) {
  return {"adamw", moments_attrs(settings, target)};
}

}  // namespace

std::span<const OpDef> adamw_ops() {
  static const std::vector<OpDef> ops = make_step_ops({moments_op("adamw")});
  return ops;
}

const Optimizer& adamw_optimizer() {
  static const Optimizer optimizer = moments_optimizer("adamw", 1e-8, step_of_adamw);
  return optimizer;
}

}  // namespace snug
