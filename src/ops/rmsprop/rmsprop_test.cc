// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/step_cases.h"

namespace snug {
namespace {

Attrs attrs(double weight_decay, double alpha = 0.9) {
  return {{"alpha", alpha}, {"eps", 1e-4}, {"weight_decay", weight_decay}};
}
Attrs momentum_attrs(double weight_decay) {
  return {{"alpha", 0.9}, {"eps", 1e-4}, {"momentum", 0.8}, {"weight_decay", weight_decay}};
}

}  // namespace

std::vector<OpCase> rmsprop_cases() {
  return with_coded_states({
      {.op = "rmsprop",
       .name = "decay_and_clip",
       .inputs = {f32_normal({5, 9}), f32_normal({5, 9}), f32_positive({5, 9}), absent(),
                  step_hyper(), f32_values({}, {0.3})},
       .attrs = attrs(0.1)},
      {.op = "rmsprop",
       .name = "plain",
       .inputs = {f32_normal({133}), f32_normal({133}), f32_positive({133}), absent(), step_hyper(),
                  absent()},
       .attrs = attrs(0)},
      {.op = "rmsprop",
       .name = "skipped",
       .inputs = {f32_normal({9}), f32_normal({9}), f32_positive({9}), absent(), skipping_hyper(),
                  absent()},
       .attrs = attrs(0)},
      {.op = "rmsprop",
       .name = "bad_alpha",
       .inputs = {f32_normal({3}), f32_normal({3}), f32_positive({3}), absent(), step_hyper(),
                  absent()},
       .attrs = attrs(0, 1),
       .error = ErrorCode::shape_mismatch,
       .error_text = "alpha must be in [0, 1)"},
      {.op = "rmsprop_momentum",
       .name = "decay_and_clip",
       .inputs = {f32_normal({5, 9}), f32_normal({5, 9}), f32_positive({5, 9}), f32_normal({5, 9}),
                  absent(), step_hyper(), f32_values({}, {0.3})},
       .attrs = momentum_attrs(0.1)},
      {.op = "rmsprop_momentum",
       .name = "bad_buffer",
       .inputs = {f32_normal({3}), f32_normal({3}), f32_positive({3}), f32_normal({2}), absent(),
                  step_hyper(), absent()},
       .attrs = momentum_attrs(0),
       .error = ErrorCode::shape_mismatch,
       .error_text = "buffer must have shape [3], not [2]"},
  });
}

}  // namespace snug
