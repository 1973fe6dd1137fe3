// SPDX-License-Identifier: Apache-2.0
// Lion (Chen et al., 2023, algorithm 2).
//
// lion(w, g, m, rng?, hyper, coefficient?, row_of?) {beta1, beta2, weight_decay} -> w, m
//   g *= coefficient; c = beta1 m + (1 - beta1) g; w -= lr * (sign(c) +
//   weight_decay * w); m = beta2 m + (1 - beta2) g
#include "ops/optimizer/optimizer_def.h"
#include "ops/optimizer/optimizer_step.h"

namespace snug {
namespace {

void check_lion(const InferArgs& args) {
  require_share(args, "beta1");
  require_share(args, "beta2");
  require_not_negative(args, "weight_decay");
}

Cost cost_lion(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], 10));
}

std::vector<StateSpec> states_of_lion(const HyperValues&, const Shape& shape) {
  return states_like(shape, {"m"});
}

StepNode step_of_lion(const HyperValues& settings, const StepTarget& target) {
  return {"lion",
          {{"beta1", settings.at("beta1")},
           {"beta2", settings.at("beta2")},
           {"weight_decay", target.weight_decay}}};
}

double lion_gradient_share(const HyperValues& settings) { return 1 - settings.at("beta2"); }

}  // namespace

std::span<const OpDef> lion_ops() {
  static const std::vector<OpDef> ops =
      make_step_ops({{.name = "lion",
                      .states = {{.name = "m"}},
                      .numbers = {"beta1", "beta2", "weight_decay"},
                      .check = check_lion,
                      .cost = cost_lion}});
  return ops;
}

const Optimizer& lion_optimizer() {
  static const Optimizer optimizer = {
      .name = "lion",
      .parameters = std::vector<HyperParameter>{{"beta1", 0.9, HyperRange::share, "adam_beta1"},
                                                {"beta2", 0.99, HyperRange::share, "adam_beta2"}},
      .states = states_of_lion,
      .step = step_of_lion,
      .fed = feed_rate,
      .gradient_share = lion_gradient_share,
      .refusal = nothing_refused};
  return optimizer;
}

}  // namespace snug
