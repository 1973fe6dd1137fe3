// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {

std::vector<OpCase> geglu_cases() {
  const Attrs tanh = {{"approximate", std::string("tanh")}};
  return {
      {.op = "geglu", .name = "odd_half", .inputs = {f32_normal({3, 10})}},
      {.op = "geglu", .name = "tokens", .inputs = {f32_normal({2, 3, 34})}, .attrs = tanh},
      {.op = "geglu", .name = "longer_than_a_piece", .inputs = {f32_normal({2, 4502})}},
      {.op = "geglu", .name = "no_rows", .inputs = {f32_normal({0, 4})}, .zero_gradient = true},
      {.op = "geglu",
       .name = "no_halves",
       .inputs = {f32_normal({3, 5})},
       .error = ErrorCode::shape_mismatch,
       .error_text = "has no two halves"},
      {.op = "geglu",
       .name = "unknown_approximation",
       .inputs = {f32_normal({3, 4})},
       .attrs = {{"approximate", std::string("sigmoid")}},
       .error = ErrorCode::invalid_graph,
       .error_text = "approximate must be"},
      {.op = "geglu_grad", .name = "odd_half", .inputs = {f32_normal({3, 10}), f32_normal({3, 5})}},
      {.op = "geglu_grad",
       .name = "longer_than_a_piece",
       .inputs = {f32_normal({2, 4502}), f32_normal({2, 2251})},
       .attrs = tanh},
      {.op = "geglu_grad",
       .name = "dy_of_another_width",
       .inputs = {f32_normal({3, 10}), f32_normal({3, 10})},
       .error = ErrorCode::shape_mismatch,
       .error_text = "dy must have shape [3,5]"},
  };
}

}  // namespace snug
