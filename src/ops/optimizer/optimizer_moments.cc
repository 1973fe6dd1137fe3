// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/optimizer_moments.h"

namespace snug {
namespace {

void check_moments(const InferArgs& args) {
  require_share(args, "beta1");
  require_share(args, "beta2");
  require_not_negative(args, "eps");
  require_not_negative(args, "weight_decay");
}

Cost cost_of_one_pass(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], 30));
}

std::vector<StateSpec> states_of_moments(const HyperValues&, const Shape& shape) {
  return states_like(shape, {"m", "v"});
}

double gradient_share_of_moments(const HyperValues& settings) { return 1 - settings.at("beta1"); }

}  // namespace

StepOp moments_op(const std::string& name) {
  return {.name = name,
          .states = {{.name = "m"}, {.name = "v", .is_square = true}},
          .numbers = {"beta1", "beta2", "eps", "weight_decay"},
          .check = check_moments,
          .cost = cost_of_one_pass};
}

Attrs moments_attrs(const HyperValues& settings, const StepTarget& target) {
  return {{"beta1", settings.at("beta1")},
          {"beta2", settings.at("beta2")},
          {"eps", settings.at("epsilon")},
          {"weight_decay", target.weight_decay}};
}

Optimizer moments_optimizer(const std::string& name, double epsilon,
                            StepNode (*step)(const HyperValues&, const StepTarget&)) {
  return {
      .name = name,
      .parameters =
          std::vector<HyperParameter>{{"beta1", 0.9, HyperRange::share, "adam_beta1"},
                                      {"beta2", 0.999, HyperRange::share, "adam_beta2"},
                                      {"epsilon", epsilon, HyperRange::positive, "adam_epsilon"}},
      .states = states_of_moments,
      .step = step,
      .fed = feed_corrections,
      .gradient_share = gradient_share_of_moments,
      .refusal = nothing_refused};
}

}  // namespace snug
