// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/step_cases.h"

namespace snug {
namespace {

Attrs attrs(double weight_decay, bool adapts, double beta1 = 0.9) {
  return {{"beta1", beta1},
          {"beta2", 0.999},
          {"eps", 1e-6},
          {"weight_decay", weight_decay},
          {"adapts", adapts}};
}

}  // namespace

std::vector<OpCase> lamb_cases() {
  return with_coded_states({
      {.op = "lamb",
       .name = "decay_and_clip",
       .inputs = {f32_normal({5, 9}), f32_normal({5, 9}), f32_normal({5, 9}), f32_positive({5, 9}),
                  absent(), step_hyper(), f32_values({}, {0.3})},
       .attrs = attrs(0.1, true)},
      {.op = "lamb",
       .name = "several_blocks",
       .inputs = {f32_normal({3, 16500}), f32_normal({3, 16500}), f32_normal({3, 16500}),
                  f32_positive({3, 16500}), absent(), step_hyper(), absent()},
       .attrs = attrs(0, true)},
      {.op = "lamb",
       .name = "not_adapted",
       .inputs = {f32_normal({133}), f32_normal({133}), f32_normal({133}), f32_positive({133}),
                  absent(), step_hyper(), absent()},
       .attrs = attrs(0, false)},
      {.op = "lamb",
       .name = "weight_of_zeros",
       .inputs = {f32_values({3}, {0, 0, 0}), f32_normal({3}), f32_normal({3}), f32_positive({3}),
                  absent(), step_hyper(), absent()},
       .attrs = attrs(0, true)},
      {.op = "lamb",
       .name = "skipped",
       .inputs = {f32_normal({9}), f32_normal({9}), f32_normal({9}), f32_positive({9}), absent(),
                  skipping_hyper(), absent()},
       .attrs = attrs(0.1, true)},
      {.op = "lamb",
       .name = "bad_beta",
       .inputs = {f32_normal({3}), f32_normal({3}), f32_normal({3}), f32_positive({3}), absent(),
                  step_hyper(), absent()},
       .attrs = attrs(0, true, 1),
       .error = ErrorCode::shape_mismatch,
       .error_text = "beta1 must be in [0, 1)"},
  });
}

}  // namespace snug
