// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {

std::vector<OpCase> softmax_cases() {
  const Attrs first_axis = {{"axis", int64_t{0}}};
  const Attrs middle_axis = {{"axis", int64_t{1}}};
  const Attrs axis_4 = {{"axis", int64_t{4}}};
  return {
      {.op = "softmax", .name = "odd", .inputs = {f32_normal({3, 7})}},
      {.op = "softmax", .name = "long_row", .inputs = {f32_normal({2, 131})}},
      {.op = "softmax",
       .name = "one_element",
       .inputs = {f32_normal({4, 1})},
       .zero_gradient = true},
      {.op = "softmax", .name = "axis_0", .inputs = {f32_normal({5, 3})}, .attrs = first_axis},
      {.op = "softmax",
       .name = "axis_1_of_3",
       .inputs = {f32_normal({2, 5, 3})},
       .attrs = middle_axis},
      {.op = "softmax",
       .name = "far_from_zero",
       .inputs = {f32_normal({3, 5})},
       .magnitudes = {64},
       .differentiated_outputs = {}},  // saturated: differences have no digits
      {.op = "softmax", .name = "empty", .inputs = {f32_normal({0, 5})}, .zero_gradient = true},
      {.op = "softmax",
       .name = "bad_axis",
       .inputs = {f32_normal({5})},
       .attrs = axis_4,
       .error = ErrorCode::shape_mismatch,
       .error_text = "axis 4 is out of range"},
      {.op = "softmax",
       .name = "integers",
       .inputs = {i32_between({5}, 0, 3)},
       .error = ErrorCode::shape_mismatch,
       .error_text = "x must be f32"},
      {.op = "masked_softmax",
       .name = "same_shape",
       .inputs = {f32_normal({4, 9}), bool_random({4, 9})}},
      {.op = "masked_softmax",
       .name = "keys_of_a_batch",
       .inputs = {f32_normal({2, 3, 4, 5}),
                  bool_values({2, 1, 1, 5}, {1, 1, 1, 0, 0, 1, 0, 1, 1, 1})}},
      {.op = "masked_softmax",
       .name = "one_mask_for_all",
       .inputs = {f32_normal({3, 4}), bool_values({4}, {1, 0, 1, 1})}},
      {.op = "masked_softmax",
       .name = "some_rows_fully_masked",
       .inputs = {f32_normal({3, 4}), bool_values({3, 1}, {1, 0, 1})}},
      {.op = "masked_softmax",
       .name = "all_masked",
       .inputs = {f32_normal({2, 4}), bool_values({2, 1}, {0, 0})},
       .zero_gradient = true},
      {.op = "masked_softmax",
       .name = "mask_too_large",
       .inputs = {f32_normal({3, 1}), bool_random({3, 4})},
       .error = ErrorCode::shape_mismatch,
       .error_text = "does not broadcast to x [3,1]"},
      {.op = "masked_softmax",
       .name = "mask_of_floats",
       .inputs = {f32_normal({4}), f32_normal({4})},
       .error = ErrorCode::shape_mismatch,
       .error_text = "mask must be bool"},
      {.op = "softmax_grad", .name = "odd", .inputs = {f32_positive({3, 7}), f32_normal({3, 7})}},
      {.op = "softmax_grad",
       .name = "axis_0",
       .inputs = {f32_positive({5, 3}), f32_normal({5, 3})},
       .attrs = first_axis},
      {.op = "softmax_grad",
       .name = "bad_shape",
       .inputs = {f32_normal({3, 7}), f32_normal({7})},
       .error = ErrorCode::shape_mismatch,
       .error_text = "dy must have shape [3,7]"},
  };
}

}  // namespace snug
