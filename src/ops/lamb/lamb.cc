// SPDX-License-Identifier: Apache-2.0
// LAMB (You et al., 2019, algorithm 2), with corrections of both moments.
//
// lamb(w, g, m, v, rng?, hyper, coefficient?, row_of?) {beta1, beta2, eps, weight_decay, adapts} ->
// w, m, v
//   hyper = {lr, 1 - beta1^t, 1 - beta2^t, skip}
//   g *= coefficient; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
//   u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay * w;
//   w -= lr * (adapts ? |w| / |u| : 1) * u, where the ratio is 1 if either norm is 0
// Biases and the weights of norms do not adapt, as in the authors' program.
#include "ops/optimizer/optimizer_moments.h"

namespace snug {
namespace {

// w, m and v are read twice.
Cost cost_lamb(const CostArgs& args) {
  Cost cost = streaming_cost(args, element_flops(args.inputs[0], 60));
  cost.bytes_read += 3 * static_cast<double>(byte_count(args.inputs[0]));
  return cost;
}

StepNode step_of_lamb(const HyperValues& settings, const StepTarget& target) {
  Attrs attrs = moments_attrs(settings, target);
  attrs.set("adapts", target.is_adapted);
  return {"lamb", attrs};
}

StepOp step_op() {
  StepOp op = moments_op("lamb");
  op.flags = {"adapts"};
  op.cost = cost_lamb;
  return op;
}

}  // namespace

std::span<const OpDef> lamb_ops() {
  static const std::vector<OpDef> ops = make_step_ops({step_op()});
  return ops;
}

const Optimizer& lamb_optimizer() {
  static const Optimizer optimizer = moments_optimizer("lamb", 1e-6, step_of_lamb);
  return optimizer;
}

}  // namespace snug
