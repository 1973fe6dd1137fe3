// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/step_cases.h"

namespace snug {
namespace {

Attrs attrs(double weight_decay, double clip_threshold = 1) {
  return {{"eps", 1e-12}, {"clip_threshold", clip_threshold}, {"weight_decay", weight_decay}};
}
CaseInput share_hyper() { return f32_values({4}, {0.01, 0.4, 0, 0}); }

}  // namespace

std::vector<OpCase> adafactor_cases() {
  return with_coded_weights({
      {.op = "adafactor",
       .name = "decay_and_clip",
       .inputs = {f32_normal({5, 9}), f32_normal({5, 9}), f32_positive({5}), f32_positive({9}),
                  absent(), share_hyper(), f32_values({}, {0.3})},
       .attrs = attrs(0.1)},
      {.op = "adafactor",
       .name = "several_matrices",
       .inputs = {f32_normal({3, 2, 3, 5}), f32_normal({3, 2, 3, 5}), f32_positive({3, 2, 3}),
                  f32_positive({3, 2, 5}), absent(), share_hyper(), absent()},
       .attrs = attrs(0)},
      {.op = "adafactor",
       .name = "many_columns",
       .inputs = {f32_normal({40, 300}), f32_normal({40, 300}), f32_positive({40}),
                  f32_positive({300}), absent(), share_hyper(), absent()},
       .attrs = attrs(0, 0.5)},
      {.op = "adafactor",
       .name = "skipped",
       .inputs = {f32_normal({3, 4}), f32_normal({3, 4}), f32_positive({3}), f32_positive({4}),
                  absent(), skipping_hyper(), absent()},
       .attrs = attrs(0.1)},
      {.op = "adafactor",
       .name = "bad_col",
       .inputs = {f32_normal({3, 4}), f32_normal({3, 4}), f32_positive({3}), f32_positive({3}),
                  absent(), share_hyper(), absent()},
       .attrs = attrs(0),
       .error = ErrorCode::shape_mismatch,
       .error_text = "col must have shape [4], not [3]"},
      {.op = "adafactor",
       .name = "vector",
       .inputs = {f32_normal({3}), f32_normal({3}), f32_positive({3}), f32_positive({3}), absent(),
                  share_hyper(), absent()},
       .attrs = attrs(0),
       .error = ErrorCode::shape_mismatch,
       .error_text = "w must have rank 2 or more, not [3]"},
      {.op = "adafactor_vector",
       .name = "decay_and_clip",
       .inputs = {f32_normal({133}), f32_normal({133}), f32_positive({133}), absent(),
                  share_hyper(), f32_values({}, {0.3})},
       .attrs = attrs(0.1)},
      {.op = "adafactor_vector",
       .name = "several_blocks",
       .inputs = {f32_normal({20000}), f32_normal({20000}), f32_positive({20000}), absent(),
                  share_hyper(), absent()},
       .attrs = attrs(0)},
      {.op = "adafactor_vector",
       .name = "bad_threshold",
       .inputs = {f32_normal({3}), f32_normal({3}), f32_positive({3}), absent(), share_hyper(),
                  absent()},
       .attrs = attrs(0, 0),
       .error = ErrorCode::shape_mismatch,
       .error_text = "clip_threshold must be above 0"},
  });
}

}  // namespace snug
