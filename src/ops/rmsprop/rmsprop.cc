// SPDX-License-Identifier: Apache-2.0
// torch.optim.RMSprop.
//
// rmsprop(w, g, v, rng?, hyper, coefficient?, row_of?) {alpha, eps, weight_decay} -> w, v
//   g = g * coefficient + weight_decay * w; v = alpha v + (1 - alpha) g^2;
//   w -= lr * g / (sqrt(v) + eps)
// rmsprop_momentum(w, g, v, buffer, rng?, hyper, coefficient?, row_of?) {alpha, eps, momentum,
// weight_decay}
//   -> w, v, buffer
//   g, v as above; buffer = momentum * buffer + g / (sqrt(v) + eps); w -= lr * buffer
#include "ops/optimizer/optimizer_def.h"
#include "ops/optimizer/optimizer_step.h"

namespace snug {
namespace {

void rmsprop_require_attrs(const InferArgs& args) {
  require_share(args, "alpha");
  require_not_negative(args, "eps");
  require_not_negative(args, "weight_decay");
}

void check_rmsprop(const InferArgs& args) { rmsprop_require_attrs(args); }

void check_rmsprop_momentum(const InferArgs& args) {
  rmsprop_require_attrs(args);
  require_not_negative(args, "momentum");
}

Cost cost_rmsprop(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], 25));
}

std::vector<StateSpec> states_of_rmsprop(const HyperValues& settings, const Shape& shape) {
  if (settings.at("momentum") > 0) return states_like(shape, {"v", "momentum"});
  return states_like(shape, {"v"});
}

StepNode step_of_rmsprop(const HyperValues& settings, const StepTarget& target) {
  StepNode step = {"rmsprop",
                   {{"alpha", settings.at("alpha")},
                    {"eps", settings.at("epsilon")},
                    {"weight_decay", target.weight_decay}}};
  if (settings.at("momentum") == 0) return step;
  step.op = "rmsprop_momentum";
  step.attrs.set("momentum", settings.at("momentum"));
  return step;
}

}  // namespace

std::span<const OpDef> rmsprop_ops() {
  static const std::vector<OpDef> ops =
      make_step_ops({{.name = "rmsprop",
                      .states = {{.name = "v", .is_square = true}},
                      .numbers = {"alpha", "eps", "weight_decay"},
                      .check = check_rmsprop,
                      .cost = cost_rmsprop},
                     {.name = "rmsprop_momentum",
                      .states = {{.name = "v", .is_square = true}, {.name = "buffer"}},
                      .numbers = {"alpha", "eps", "momentum", "weight_decay"},
                      .check = check_rmsprop_momentum,
                      .cost = cost_rmsprop}});
  return ops;
}

const Optimizer& rmsprop_optimizer() {
  static const Optimizer optimizer = {
      .name = "rmsprop",
      .parameters =
          std::vector<HyperParameter>{{"alpha", 0.99, HyperRange::share, "adam_beta2"},
                                      {"epsilon", 1e-8, HyperRange::positive, "adam_epsilon"},
                                      {"momentum", 0, HyperRange::share, "momentum"}},
      .states = states_of_rmsprop,
      .step = step_of_rmsprop,
      .fed = feed_rate,
      .gradient_share = no_share,
      .refusal = nothing_refused};
  return optimizer;
}

}  // namespace snug
