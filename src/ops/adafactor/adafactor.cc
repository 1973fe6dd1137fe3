// SPDX-License-Identifier: Apache-2.0
// Adafactor (Shazeer and Stern, 2018) as transformers' Adafactor with the given learning rate:
// without a first moment, relative steps and the scale of the parameter.
//
// adafactor(w, g, row, col, rng?, hyper, coefficient?, absent) {eps, clip_threshold, weight_decay}
// -> w, row, col
//   w: (..., R, C), row: (..., R), col: (..., C); hyper = {lr, t^-decay_rate, 0, skip}
//   g *= coefficient; share = hyper[1];
//   row = (1 - share) row + share mean(g^2 + eps over C); col likewise over R;
//   u = g / sqrt(row / mean(row over R)) / sqrt(col); u /= max(1, rms(u) / clip_threshold);
//   w -= lr * weight_decay * w + lr * u, where rms is that of the whole weight
// adafactor_vector(w, g, v, rng?, hyper, coefficient?, absent) {eps, clip_threshold, weight_decay}
// -> w, v
//   v = (1 - share) v + share (g^2 + eps); u = g / sqrt(v); the rest as above
#include <cmath>

#include "ops/optimizer/optimizer_def.h"
#include "ops/optimizer/optimizer_step.h"

namespace snug {
namespace {

Shape without(const Shape& shape, size_t from_the_end) {
  Shape rest = shape;
  rest.erase(rest.end() - static_cast<std::ptrdiff_t>(from_the_end));
  return rest;
}

bool is_factored(const Shape& shape) { return shape.size() >= 2; }

void adafactor_require_attrs(const InferArgs& args) {
  require_not_negative(args, "eps");
  require_not_negative(args, "weight_decay");
  if (!(args.attrs.real("clip_threshold") > 0)) shape_error(args, "clip_threshold must be above 0");
}

std::vector<TensorType> infer_adafactor(const InferArgs& args) {
  adafactor_require_attrs(args);
  const Shape& shape = args.inputs[0].shape;
  if (!is_factored(shape)) shape_error(args, "w must have rank 2 or more, not " + to_string(shape));
  require_weight(args);
  require_whole_gradient(args);
  require_f32(args, 2, without(shape, 1), "row");
  require_f32(args, 3, without(shape, 2), "col");
  require_hyper(args);
  return {args.inputs[0], args.inputs[2], args.inputs[3]};
}

std::vector<TensorType> infer_adafactor_vector(const InferArgs& args) {
  adafactor_require_attrs(args);
  return infer_step(args, {{.name = "v", .is_square = true}});
}

// g is read four times, w twice.
Cost cost_adafactor(const CostArgs& args) {
  Cost cost = streaming_cost(args, element_flops(args.inputs[0], 15));
  cost.bytes_read += 3 * static_cast<double>(byte_count(args.inputs[0]));
  return cost;
}

std::vector<StateSpec> states_of_adafactor(const HyperValues&, const Shape& shape) {
  if (!is_factored(shape)) return states_like(shape, {"v"});
  return {{.role = "row", .shape = without(shape, 1)}, {.role = "col", .shape = without(shape, 2)}};
}

StepNode step_of_adafactor(const HyperValues& settings, const StepTarget& target) {
  return {is_factored(target.shape) ? "adafactor" : "adafactor_vector",
          {{"eps", settings.at("epsilon")},
           {"clip_threshold", settings.at("clip_threshold")},
           {"weight_decay", target.weight_decay}}};
}

FedValues feed_share(const HyperValues& settings, double learning_rate, int64_t step) {
  return {learning_rate, std::pow(static_cast<double>(step), -settings.at("decay_rate")), 0, 0};
}

}  // namespace

std::span<const OpDef> adafactor_ops() {
  static const std::vector<OpDef> ops = make_step_ops(
      {{.name = "adafactor",
        .states = {{.name = "row", .is_square = true}, {.name = "col", .is_square = true}},
        .numbers = {"eps", "clip_threshold", "weight_decay"},
        .infer = infer_adafactor,
        .cost = cost_adafactor},
       {.name = "adafactor_vector",
        .states = {{.name = "v", .is_square = true}},
        .numbers = {"eps", "clip_threshold", "weight_decay"},
        .infer = infer_adafactor_vector,
        .cost = cost_adafactor}});
  return ops;
}

const Optimizer& adafactor_optimizer() {
  static const Optimizer optimizer = {
      .name = "adafactor",
      .parameters =
          std::vector<HyperParameter>{{"epsilon", 1e-30, HyperRange::positive, "adam_epsilon"},
                                      {"clip_threshold", 1, HyperRange::positive},
                                      {"decay_rate", 0.8, HyperRange::positive}},
      .states = states_of_adafactor,
      .step = step_of_adafactor,
      .fed = feed_share,
      .gradient_share = no_share,
      .refusal = nothing_refused};
  return optimizer;
}

}  // namespace snug
