// SPDX-License-Identifier: Apache-2.0
// LAMB (You et al., 2019, algorithm 2), with corrections of both moments.
//
// lamb(w, g, m, v, rng?, hyper, coefficient?) {beta1, beta2, eps, weight_decay, adapts} -> w, m, v
//   hyper = {lr, 1 - beta1^t, 1 - beta2^t, skip}
//   g *= coefficient; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
//   u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay * w;
//   w -= lr * (adapts ? |w| / |u| : 1) * u, where the ratio is 1 if either norm is 0
// Biases and the weights of norms do not adapt, as in the authors' program.
#include "ops/optimizer/optimizer_def.h"
#include "ops/optimizer/optimizer_step.h"

namespace snug {
namespace {

void check_lamb(const InferArgs& args) {
  require_share(args, "beta1");
  require_share(args, "beta2");
  require_not_negative(args, "eps");
  require_not_negative(args, "weight_decay");
}

// w, m and v are read twice.
Cost cost_lamb(const CostArgs& args) {
  Cost cost = streaming_cost(args, element_flops(args.inputs[0], 60));
  cost.bytes_read += 3 * static_cast<double>(byte_count(args.inputs[0]));
  return cost;
}

std::vector<StateSpec> states_of(const Settings&, const Shape& shape) {
  return states_like(shape, {"m", "v"});
}

StepNode step_of(const Settings& settings, const StepTarget& target) {
  return {"lamb",
          {{"beta1", settings.at("beta1")},
           {"beta2", settings.at("beta2")},
           {"eps", settings.at("epsilon")},
           {"weight_decay", target.weight_decay},
           {"adapts", target.is_adapted}}};
}

double gradient_share(const Settings& settings) { return 1 - settings.at("beta1"); }

}  // namespace

std::span<const OpDef> lamb_ops() {
  static const std::vector<OpDef> ops =
      make_step_ops({{.name = "lamb",
                      .states = {{.name = "m"}, {.name = "v", .is_square = true}},
                      .numbers = {"beta1", "beta2", "eps", "weight_decay"},
                      .flags = {"adapts"},
                      .check = check_lamb,
                      .cost = cost_lamb}});
  return ops;
}

const Optimizer& lamb_optimizer() {
  static const Optimizer optimizer = {
      .name = "lamb",
      .parameters =
          std::vector<HyperParameter>{{"beta1", 0.9, HyperRange::share, "adam_beta1"},
                                      {"beta2", 0.999, HyperRange::share, "adam_beta2"},
                                      {"epsilon", 1e-6, HyperRange::positive, "adam_epsilon"}},
      .states = states_of,
      .step = step_of,
      .fed = feed_corrections,
      .gradient_share = gradient_share,
      .refusal = nothing_refused};
  return optimizer;
}

}  // namespace snug
