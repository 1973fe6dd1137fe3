// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/step_cases.h"

namespace snug {
namespace {

Attrs attrs(double weight_decay, double beta1 = 0.9) {
  return {{"beta1", beta1}, {"beta2", 0.99}, {"weight_decay", weight_decay}};
}

}  // namespace

std::vector<OpCase> lion_cases() {
  return with_coded_states({
      {.op = "lion",
       .name = "decay_and_clip",
       .inputs = {f32_normal({5, 9}), f32_normal({5, 9}), f32_normal({5, 9}), absent(),
                  step_hyper(), f32_values({}, {0.3})},
       .attrs = attrs(0.1)},
      {.op = "lion",
       .name = "plain",
       .inputs = {f32_normal({133}), f32_normal({133}), f32_normal({133}), absent(), step_hyper(),
                  absent()},
       .attrs = attrs(0)},
      {.op = "lion",
       .name = "zeros_do_not_move",
       .inputs = {f32_normal({3}), f32_values({3}, {0, 0, 1}), f32_values({3}, {0, 0, 0}), absent(),
                  step_hyper(), absent()},
       .attrs = attrs(0)},
      {.op = "lion",
       .name = "skipped",
       .inputs = {f32_normal({9}), f32_normal({9}), f32_normal({9}), absent(), skipping_hyper(),
                  absent()},
       .attrs = attrs(0.1)},
      {.op = "lion",
       .name = "bad_beta",
       .inputs = {f32_normal({3}), f32_normal({3}), f32_normal({3}), absent(), step_hyper(),
                  absent()},
       .attrs = attrs(0, 1),
       .error = ErrorCode::shape_mismatch,
       .error_text = "beta1 must be in [0, 1)"},
  });
}

}  // namespace snug
