// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/step_cases.h"

namespace snug {
namespace {

Attrs attrs(double weight_decay) { return {{"eps", 1e-6}, {"weight_decay", weight_decay}}; }

}  // namespace

std::vector<OpCase> adagrad_cases() {
  return with_coded_states({
      {.op = "adagrad",
       .name = "decay_and_clip",
       .inputs = {f32_normal({5, 9}), f32_normal({5, 9}), f32_positive({5, 9}), absent(),
                  step_hyper(), f32_values({}, {0.3})},
       .attrs = attrs(0.1)},
      {.op = "adagrad",
       .name = "plain",
       .inputs = {f32_normal({133}), f32_normal({133}), f32_positive({133}), absent(), step_hyper(),
                  absent()},
       .attrs = attrs(0)},
      {.op = "adagrad",
       .name = "skipped",
       .inputs = {f32_normal({9}), f32_normal({9}), f32_positive({9}), absent(), skipping_hyper(),
                  absent()},
       .attrs = attrs(0)},
      {.op = "adagrad",
       .name = "bad_decay",
       .inputs = {f32_normal({3}), f32_normal({3}), f32_positive({3}), absent(), step_hyper(),
                  absent()},
       .attrs = attrs(-1),
       .error = ErrorCode::shape_mismatch,
       .error_text = "weight_decay must not be negative"},
  });
}

}  // namespace snug
