// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {

std::vector<OpCase> token_positions_cases() {
  const Attrs pad = {{"pad", int64_t{1}}};
  return {
      {.op = "token_positions",
       .name = "padding_in_every_place",
       .inputs = {i32_values({3, 5}, {0, 5, 7, 2, 1, 1, 1, 0, 4, 2, 0, 1, 6, 1, 2})},
       .attrs = pad},
      {.op = "token_positions",
       .name = "long_rows",
       .inputs = {i32_between({3, 301}, 0, 4)},
       .attrs = pad},
      {.op = "token_positions",
       .name = "of_f32",
       .inputs = {f32_normal({3, 5})},
       .attrs = pad,
       .error = ErrorCode::shape_mismatch,
       .error_text = "ids must be i32"},
  };
}

}  // namespace snug
