// SPDX-License-Identifier: Apache-2.0
// torch.optim.Adagrad.
//
// adagrad(w, g, sum, rng?, hyper, coefficient?, row_of?) {eps, weight_decay} -> w, sum
//   hyper = {lr / (1 + (t - 1) lr_decay), 0, 0, skip}
//   g = g * coefficient + weight_decay * w; sum += g^2; w -= hyper[0] * g / (sqrt(sum) + eps)
#include "ops/optimizer/optimizer_def.h"
#include "ops/optimizer/optimizer_step.h"

namespace snug {
namespace {

void check_adagrad(const InferArgs& args) {
  require_not_negative(args, "eps");
  require_not_negative(args, "weight_decay");
}

Cost cost_adagrad(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], 25));
}

std::vector<StateSpec> states_of_adagrad(const HyperValues&, const Shape& shape) {
  return states_like(shape, {"sum"});
}

StepNode step_of_adagrad(const HyperValues& settings, const StepTarget& target) {
  return {"adagrad", {{"eps", settings.at("epsilon")}, {"weight_decay", target.weight_decay}}};
}

FedValues feed_decayed_rate(const HyperValues& settings, double learning_rate, int64_t step) {
  return {learning_rate / (1 + static_cast<double>(step - 1) * settings.at("lr_decay")), 0, 0, 0};
}

}  // namespace

std::span<const OpDef> adagrad_ops() {
  static const std::vector<OpDef> ops =
      make_step_ops({{.name = "adagrad",
                      .states = {{.name = "sum", .is_square = true}},
                      .numbers = {"eps", "weight_decay"},
                      .check = check_adagrad,
                      .cost = cost_adagrad}});
  return ops;
}

const Optimizer& adagrad_optimizer() {
  static const Optimizer optimizer = {
      .name = "adagrad",
      .parameters =
          std::vector<HyperParameter>{{"epsilon", 1e-10, HyperRange::positive, "adam_epsilon"},
                                      {"lr_decay", 0, HyperRange::not_negative}},
      .states = states_of_adagrad,
      .step = step_of_adagrad,
      .fed = feed_decayed_rate,
      .gradient_share = no_share,
      .refusal = nothing_refused};
  return optimizer;
}

}  // namespace snug
