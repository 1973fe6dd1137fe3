// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {

std::vector<OpCase> token_pool_cases() {
  // The second row has a hole, the third no token at all.
  const CaseInput holes = bool_values({3, 4}, {1, 1, 1, 1, /**/ 0, 1, 0, 1, /**/ 0, 0, 0, 0});
  const CaseInput long_rows = bool_random({2, 37});
  std::vector<OpCase> cases;
  for (const char* op : {"masked_mean", "masked_max"}) {
    const auto add = [&](const char* name, const CaseInput& mask, int64_t columns) {
      const Shape& rows = mask.type.shape;
      cases.push_back(
          {.op = op, .name = name, .inputs = {f32_distinct({rows[0], rows[1], columns}), mask}});
    };
    add("holes", holes, 5);
    add("odd_columns", long_rows, 259);
    add("one_token", bool_values({2, 1}, {1, 1}), 3);
    cases.push_back({.op = op,
                     .name = "all_masked",
                     .inputs = {f32_normal({1, 2, 3}), bool_values({1, 2}, {0, 0})},
                     .zero_gradient = true});
    cases.push_back({.op = op,
                     .name = "mask_shape",
                     .inputs = {f32_normal({2, 3, 4}), bool_random({2, 4})},
                     .error = ErrorCode::shape_mismatch,
                     .error_text = "mask must have shape [2,3], not [2,4]"});
    cases.push_back({.op = op,
                     .name = "rank",
                     .inputs = {f32_normal({2, 3}), bool_random({2, 3})},
                     .error = ErrorCode::shape_mismatch,
                     .error_text = "x must have rank 3, not f32[2,3]"});
  }
  cases.push_back(
      {.op = "masked_mean_grad", .name = "holes", .inputs = {holes, f32_normal({3, 5})}});
  cases.push_back({.op = "masked_mean_grad",
                   .name = "odd_columns",
                   .inputs = {long_rows, f32_normal({2, 259})}});
  cases.push_back({.op = "masked_mean_grad",
                   .name = "rows",
                   .inputs = {holes, f32_normal({2, 5})},
                   .error = ErrorCode::shape_mismatch,
                   .error_text = "dy must have shape [3,5], not [2,5]"});
  cases.push_back({.op = "masked_max_grad",
                   .name = "all_tokens",
                   .inputs = {i32_between({3, 261}, -1, 6), f32_normal({3, 261})},
                   .attrs = {{"length", int64_t{7}}},
                   .is_exact_on_integers = true});
  cases.push_back({.op = "masked_max_grad",
                   .name = "no_length",
                   .inputs = {i32_between({1, 2}, 0, 0), f32_normal({1, 2})},
                   .attrs = {{"length", int64_t{0}}},
                   .error = ErrorCode::shape_mismatch,
                   .error_text = "length must be at least 1"});
  return cases;
}

}  // namespace snug
