// SPDX-License-Identifier: Apache-2.0
// LARS (You et al., 2017): SGD with momentum whose gradients have a rate of their own in each
// weight.
//
// lars(w, g, buffer, rng?, hyper, coefficient?, row_of?) {momentum, nesterov, trust, eps,
// weight_decay, adapts}
//   -> w, buffer
//   g *= coefficient;
//   local = adapts ? trust * |w| / (|g| + weight_decay * |w| + eps) : 1, 1 if either norm is 0;
//   g = local * (g + weight_decay * w); buffer = momentum * buffer + g;
//   w -= lr * (nesterov ? g + momentum * buffer : buffer)
// Biases and the weights of norms do not adapt. A change of lr acts on what the buffer holds, as in
// torch.optim.SGD.
#include "ops/optimizer/optimizer_def.h"
#include "ops/optimizer/optimizer_step.h"

namespace snug {
namespace {

void check_lars(const InferArgs& args) {
  require_not_negative(args, "momentum");
  require_not_negative(args, "trust");
  require_not_negative(args, "eps");
  require_not_negative(args, "weight_decay");
}

// w and g are read twice.
Cost cost_lars(const CostArgs& args) {
  Cost cost = streaming_cost(args, element_flops(args.inputs[0], 12));
  cost.bytes_read += 2 * static_cast<double>(byte_count(args.inputs[0]));
  return cost;
}

std::vector<StateSpec> states_of_lars(const HyperValues&, const Shape& shape) {
  return states_like(shape, {"momentum"});
}

StepNode step_of_lars(const HyperValues& settings, const StepTarget& target) {
  return {"lars",
          {{"momentum", settings.at("momentum")},
           {"nesterov", settings.at("nesterov") != 0},
           {"trust", settings.at("trust_coefficient")},
           {"eps", settings.at("epsilon")},
           {"weight_decay", target.weight_decay},
           {"adapts", target.is_adapted}}};
}

}  // namespace

std::span<const OpDef> lars_ops() {
  static const std::vector<OpDef> ops =
      make_step_ops({{.name = "lars",
                      .states = {{.name = "buffer"}},
                      .numbers = {"momentum", "trust", "eps", "weight_decay"},
                      .flags = {"nesterov", "adapts"},
                      .check = check_lars,
                      .cost = cost_lars}});
  return ops;
}

const Optimizer& lars_optimizer() {
  static const Optimizer optimizer = {
      .name = "lars",
      .parameters =
          std::vector<HyperParameter>{{"momentum", 0.9, HyperRange::share, "momentum"},
                                      {"nesterov", 0, HyperRange::flag, "nesterov"},
                                      {"epsilon", 1e-8, HyperRange::positive, "adam_epsilon"},
                                      {"trust_coefficient", 0.001, HyperRange::positive}},
      .states = states_of_lars,
      .step = step_of_lars,
      .fed = feed_rate,
      .gradient_share = no_share,
      .refusal = nesterov_alone_refused};
  return optimizer;
}

}  // namespace snug
