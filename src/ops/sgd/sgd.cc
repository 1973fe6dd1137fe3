// SPDX-License-Identifier: Apache-2.0
// torch.optim.SGD.
//
// sgd(w, g, rng?, hyper, coefficient?, row_of?) {weight_decay} -> w
//   g = g * coefficient + weight_decay * w; w -= lr * g
// sgd_momentum(w, g, buffer, rng?, hyper, coefficient?, row_of?) {momentum, nesterov, weight_decay}
// -> w, buffer
//   g as above; buffer = momentum * buffer + g;
//   w -= lr * (nesterov ? g + momentum * buffer : buffer)
#include "ops/optimizer/optimizer_def.h"
#include "ops/optimizer/optimizer_step.h"

namespace snug {
namespace {

void check_sgd(const InferArgs& args) { require_not_negative(args, "weight_decay"); }

void check_sgd_momentum(const InferArgs& args) {
  require_not_negative(args, "momentum");
  require_not_negative(args, "weight_decay");
}

Cost cost_sgd(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], 6));
}

std::vector<StateSpec> states_of_sgd(const HyperValues& settings, const Shape& shape) {
  if (settings.at("momentum") > 0) return states_like(shape, {"momentum"});
  return {};
}

StepNode step_of_sgd(const HyperValues& settings, const StepTarget& target) {
  if (settings.at("momentum") == 0) return {"sgd", {{"weight_decay", target.weight_decay}}};
  return {"sgd_momentum",
          {{"momentum", settings.at("momentum")},
           {"nesterov", settings.at("nesterov") != 0},
           {"weight_decay", target.weight_decay}}};
}

double sgd_gradient_share(const HyperValues& settings) {
  return settings.at("momentum") > 0 ? 1 : 0;
}

}  // namespace

std::span<const OpDef> sgd_ops() {
  static const std::vector<OpDef> ops = make_step_ops({{.name = "sgd",
                                                        .states = {},
                                                        .numbers = {"weight_decay"},
                                                        .check = check_sgd,
                                                        .cost = cost_sgd},
                                                       {.name = "sgd_momentum",
                                                        .states = {{.name = "buffer"}},
                                                        .numbers = {"momentum", "weight_decay"},
                                                        .flags = {"nesterov"},
                                                        .check = check_sgd_momentum,
                                                        .cost = cost_sgd}});
  return ops;
}

const Optimizer& sgd_optimizer() {
  static const Optimizer optimizer = {
      .name = "sgd",
      .parameters = std::vector<HyperParameter>{{"momentum", 0, HyperRange::share, "momentum"},
                                                {"nesterov", 0, HyperRange::flag, "nesterov"}},
      .states = states_of_sgd,
      .step = step_of_sgd,
      .fed = feed_rate,
      .gradient_share = sgd_gradient_share,
      .refusal = nesterov_alone_refused};
  return optimizer;
}

}  // namespace snug
