// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {

std::vector<OpCase> layer_norm_cases() {
  const Attrs eps = {{"eps", 1e-5}};
  const Attrs negative = {{"eps", -1e-5}};
  return {
      {.op = "layer_norm",
       .name = "odd",
       .inputs = {f32_normal({3, 7}), f32_normal({7}), f32_normal({7})}},
      {.op = "layer_norm",
       .name = "rank_3_with_eps",
       .inputs = {f32_normal({2, 3, 33}), f32_normal({33}), f32_normal({33})},
       .attrs = eps},
      {.op = "layer_norm",
       .name = "one_row",
       .inputs = {f32_normal({12}), f32_normal({12}), f32_normal({12})}},
      {.op = "layer_norm",
       .name = "gamma_with_zeros",
       .inputs = {f32_normal({4, 5}), f32_values({5}, {0, 1, 0, -2, 0.5}), f32_normal({5})}},
      {.op = "layer_norm",
       .name = "many_rows",
       .inputs = {f32_normal({67, 6}), f32_normal({6}), f32_normal({6})}},
      {.op = "layer_norm",
       .name = "no_rows",
       .inputs = {f32_normal({0, 6}), f32_normal({6}), f32_normal({6})},
       .zero_gradient = true},
      {.op = "layer_norm",
       .name = "gamma_too_short",
       .inputs = {f32_normal({4, 5}), f32_normal({4}), f32_normal({5})},
       .error = ErrorCode::shape_mismatch,
       .error_text = "gamma must have shape [5], not [4]"},
      {.op = "layer_norm",
       .name = "nothing_to_normalise",
       .inputs = {f32_normal({4, 0}), f32_normal({0}), f32_normal({0})},
       .error = ErrorCode::shape_mismatch,
       .error_text = "x [4,0] has no last axis"},
      {.op = "layer_norm",
       .name = "negative_eps",
       .inputs = {f32_normal({4, 5}), f32_normal({5}), f32_normal({5})},
       .attrs = negative,
       .error = ErrorCode::shape_mismatch,
       .error_text = "eps must not be negative"},
      {.op = "layer_norm_grad",
       .name = "odd",
       .inputs = {f32_normal({5, 7}), f32_normal({7}), f32_normal({5}), f32_positive({5}),
                  f32_normal({5, 7})}},
      {.op = "layer_norm_grad",
       .name = "many_rows",
       .inputs = {f32_normal({2, 70, 9}), f32_normal({9}), f32_normal({2, 70}),
                  f32_positive({2, 70}), f32_normal({2, 70, 9})}},
      {.op = "layer_norm_grad",
       .name = "bad_mean",
       .inputs = {f32_normal({5, 7}), f32_normal({7}), f32_normal({7}), f32_positive({5}),
                  f32_normal({5, 7})},
       .error = ErrorCode::shape_mismatch,
       .error_text = "mean must have shape [5], not [7]"},
  };
}

}  // namespace snug
