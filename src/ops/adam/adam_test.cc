// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/step_cases.h"

namespace snug {
namespace {

Attrs adam_attrs(double weight_decay, double beta1 = 0.9) {
  return {{"beta1", beta1}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", weight_decay}};
}

}  // namespace

std::vector<OpCase> adam_cases() {
  return with_coded_states({
      {.op = "adam",
       .name = "decay_and_clip",
       .inputs = {f32_normal({5, 9}), f32_normal({5, 9}), f32_normal({5, 9}), f32_positive({5, 9}),
                  absent(), step_hyper(), f32_values({}, {0.3})},
       .attrs = adam_attrs(0.1)},
      {.op = "adam",
       .name = "without_clip",
       .inputs = {f32_normal({133}), f32_normal({133}), f32_normal({133}), f32_positive({133}),
                  absent(), step_hyper(), absent()},
       .attrs = adam_attrs(0)},
      {.op = "adam",
       .name = "bad_state",
       .inputs = {f32_normal({3}), f32_normal({3}), f32_normal({4}), f32_positive({3}), absent(),
                  step_hyper(), absent()},
       .attrs = adam_attrs(0),
       .error = ErrorCode::shape_mismatch,
       .error_text = "m must have shape [3], not [4]"},
      {.op = "adam",
       .name = "bad_beta",
       .inputs = {f32_normal({3}), f32_normal({3}), f32_normal({3}), f32_positive({3}), absent(),
                  step_hyper(), absent()},
       .attrs = adam_attrs(0, 1.0),
       .error = ErrorCode::shape_mismatch,
       .error_text = "beta1 must be in [0, 1)"},
      {.op = "adam",
       .name = "skipped",
       .inputs = {f32_normal({9}), f32_normal({9}), f32_normal({9}), f32_positive({9}), absent(),
                  skipping_hyper(), absent()},
       .attrs = adam_attrs(0.1)},
  });
}

}  // namespace snug
