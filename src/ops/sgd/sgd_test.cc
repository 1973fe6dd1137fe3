// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/step_cases.h"

namespace snug {
namespace {

Attrs sgd_attrs(double weight_decay) { return {{"weight_decay", weight_decay}}; }
Attrs momentum_attrs(bool nesterov, double weight_decay) {
  return {{"momentum", 0.9}, {"nesterov", nesterov}, {"weight_decay", weight_decay}};
}

}  // namespace

std::vector<OpCase> sgd_cases() {
  return with_coded_states({
      {.op = "sgd",
       .name = "decay_and_clip",
       .inputs = {f32_normal({5, 9}), f32_normal({5, 9}), absent(), step_hyper(),
                  f32_values({}, {0.3})},
       .attrs = sgd_attrs(0.1)},
      {.op = "sgd",
       .name = "plain",
       .inputs = {f32_normal({3}), f32_normal({3}), absent(), step_hyper(), absent()},
       .attrs = sgd_attrs(0)},
      {.op = "sgd",
       .name = "bad_hyper",
       .inputs = {f32_normal({3}), f32_normal({3}), absent(), f32_normal({3}), absent()},
       .attrs = sgd_attrs(0),
       .error = ErrorCode::shape_mismatch,
       .error_text = "hyper must have shape [4], not [3]"},
      {.op = "sgd_momentum",
       .name = "plain",
       .inputs = {f32_normal({5, 9}), f32_normal({5, 9}), f32_normal({5, 9}), absent(),
                  step_hyper(), absent()},
       .attrs = momentum_attrs(false, 0)},
      {.op = "sgd_momentum",
       .name = "nesterov_decay_and_clip",
       .inputs = {f32_normal({77}), f32_normal({77}), f32_normal({77}), absent(), step_hyper(),
                  f32_values({}, {0.3})},
       .attrs = momentum_attrs(true, 0.1)},
      {.op = "sgd_momentum",
       .name = "bad_buffer",
       .inputs = {f32_normal({3}), f32_normal({3}), f32_normal({1}), absent(), step_hyper(),
                  absent()},
       .attrs = momentum_attrs(false, 0),
       .error = ErrorCode::shape_mismatch,
       .error_text = "buffer must have shape [3], not [1]"},
      {.op = "sgd_momentum",
       .name = "skipped",
       .inputs = {f32_normal({9}), f32_normal({9}), f32_normal({9}), absent(), skipping_hyper(),
                  absent()},
       .attrs = momentum_attrs(true, 0.1)},
  });
}

}  // namespace snug
