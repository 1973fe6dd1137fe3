// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/step_cases.h"

namespace snug {
namespace {

Attrs attrs(double weight_decay, bool adapts, bool nesterov = false, double momentum = 0.9) {
  return {{"momentum", momentum}, {"nesterov", nesterov},         {"trust", 0.01},
          {"eps", 1e-8},          {"weight_decay", weight_decay}, {"adapts", adapts}};
}

}  // namespace

std::vector<OpCase> lars_cases() {
  return with_coded_states({
      {.op = "lars",
       .name = "decay_and_clip",
       .inputs = {f32_normal({5, 9}), f32_normal({5, 9}), f32_normal({5, 9}), absent(),
                  step_hyper(), f32_values({}, {0.3})},
       .attrs = attrs(0.1, true)},
      {.op = "lars",
       .name = "nesterov_and_several_blocks",
       .inputs = {f32_normal({3, 16500}), f32_normal({3, 16500}), f32_normal({3, 16500}), absent(),
                  step_hyper(), absent()},
       .attrs = attrs(0.1, true, true)},
      {.op = "lars",
       .name = "not_adapted",
       .inputs = {f32_normal({133}), f32_normal({133}), f32_normal({133}), absent(), step_hyper(),
                  absent()},
       .attrs = attrs(0, false)},
      {.op = "lars",
       .name = "weight_of_zeros",
       .inputs = {f32_values({3}, {0, 0, 0}), f32_normal({3}), f32_normal({3}), absent(),
                  step_hyper(), absent()},
       .attrs = attrs(0.1, true)},
      {.op = "lars",
       .name = "skipped",
       .inputs = {f32_normal({9}), f32_normal({9}), f32_normal({9}), absent(), skipping_hyper(),
                  absent()},
       .attrs = attrs(0.1, true)},
      {.op = "lars",
       .name = "bad_momentum",
       .inputs = {f32_normal({3}), f32_normal({3}), f32_normal({3}), absent(), step_hyper(),
                  absent()},
       .attrs = attrs(0, true, false, -1),
       .error = ErrorCode::shape_mismatch,
       .error_text = "momentum must not be negative"},
  });
}

}  // namespace snug
