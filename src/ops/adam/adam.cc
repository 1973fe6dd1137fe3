// SPDX-License-Identifier: Apache-2.0
// torch.optim.Adam: the decay is a part of the gradient.
//
// adam(w, g, m, v, rng?, hyper, coefficient?) {beta1, beta2, eps, weight_decay} -> w, m, v
//   hyper = {lr, 1 - beta1^t, 1 - beta2^t, skip}
//   g = g * coefficient + weight_decay * w; m = beta1 m + (1 - beta1) g;
//   v = beta2 v + (1 - beta2) g^2;
//   w -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
#include "ops/optimizer/optimizer_def.h"
#include "ops/optimizer/optimizer_step.h"

namespace snug {
namespace {

void check_adam(const InferArgs& args) {
  require_share(args, "beta1");
  require_share(args, "beta2");
  require_not_negative(args, "eps");
  require_not_negative(args, "weight_decay");
}

Cost cost_adam(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], 30));
}

std::vector<StateSpec> states_of(const Settings&, const Shape& shape) {
  return states_like(shape, {"m", "v"});
}

StepNode step_of(const Settings& settings, const StepTarget& target) {
  return {"adam",
          {{"beta1", settings.at("beta1")},
           {"beta2", settings.at("beta2")},
           {"eps", settings.at("epsilon")},
           {"weight_decay", target.weight_decay}}};
}

double gradient_share(const Settings& settings) { return 1 - settings.at("beta1"); }

}  // namespace

std::span<const OpDef> adam_ops() {
  static const std::vector<OpDef> ops =
      make_step_ops({{.name = "adam",
                      .states = {{.name = "m"}, {.name = "v", .is_square = true}},
                      .numbers = {"beta1", "beta2", "eps", "weight_decay"},
                      .check = check_adam,
                      .cost = cost_adam}});
  return ops;
}

const Optimizer& adam_optimizer() {
  static const Optimizer optimizer = {
      .name = "adam",
      .parameters =
          std::vector<HyperParameter>{{"beta1", 0.9, HyperRange::share, "adam_beta1"},
                                      {"beta2", 0.999, HyperRange::share, "adam_beta2"},
                                      {"epsilon", 1e-8, HyperRange::positive, "adam_epsilon"}},
      .states = states_of,
      .step = step_of,
      .fed = feed_corrections,
      .gradient_share = gradient_share,
      .refusal = nothing_refused};
  return optimizer;
}

}  // namespace snug
