// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {

namespace {

// Rows in 16 bits, and the gradient of such rows: rounded as they are stored, summed in f32.
void add_halves(std::vector<OpCase>& cases) {
  for (const auto& [name, dtype] : {std::pair("bf16", DType::bf16), std::pair("f16", DType::f16)}) {
    const CaseInput dy = {.type = {dtype, {200, 7}}};
    const std::string suffix = std::string("_") + name;
    cases.push_back({.op = "embedding",
                     .name = "rows" + suffix,
                     .inputs = {f32_normal({6, 33}), i32_between({2, 3}, 0, 5)},
                     .attrs = {{"to", std::string(name)}},
                     .differentiated_outputs = {}});
    cases.push_back({.op = "embedding_grad",
                     .name = "many_ids" + suffix,
                     .inputs = {i32_between({200}, 0, 39), dy},
                     .attrs = {{"rows", int64_t{40}}}});
    cases.push_back({.op = "embedding_grad_accumulate",
                     .name = "many_ids" + suffix,
                     .inputs = {f32_normal({40, 7}), i32_between({200}, 0, 39), dy}});
  }
  cases.push_back({.op = "embedding",
                   .name = "rows_of_integers",
                   .inputs = {f32_normal({6, 3}), i32_between({2}, 0, 5)},
                   .attrs = {{"to", std::string("i32")}},
                   .error = ErrorCode::invalid_graph,
                   .error_text = "to must be f32, bf16 or f16, not 'i32'"});
}

}  // namespace

std::vector<OpCase> embedding_cases() {
  const Attrs rows_6 = {{"rows", int64_t{6}}};
  const Attrs rows_40 = {{"rows", int64_t{40}}};
  std::vector<OpCase> cases = {
      {.op = "embedding",
       .name = "sentence",
       .inputs = {f32_normal({6, 5}), i32_between({2, 3}, 0, 5)},
       .is_exact_on_integers = true},
      {.op = "embedding",
       .name = "repeated_id",
       .inputs = {f32_normal({4, 3}), i32_values({5}, {2, 2, 0, 2, 3})},
       .is_exact_on_integers = true},
      {.op = "embedding",
       .name = "one_row",
       .inputs = {f32_normal({1, 7}), i32_values({3}, {0, 0, 0})}},
      {.op = "embedding", .name = "one_id", .inputs = {f32_normal({3, 2}), i32_values({}, {1})}},
      {.op = "embedding",
       .name = "no_ids",
       .inputs = {f32_normal({3, 2}), i32_values({0}, {})},
       .zero_gradient = true},
      {.op = "embedding",
       .name = "id_too_large",
       .inputs = {f32_normal({4, 3}), i32_values({2}, {0, 4})},
       .error = ErrorCode::bad_data,
       .error_text = "id 4 is outside the table of 4 rows"},
      {.op = "embedding",
       .name = "negative_id",
       .inputs = {f32_normal({4, 3}), i32_values({2}, {-1, 0})},
       .error = ErrorCode::bad_data,
       .error_text = "id -1 is outside"},
      {.op = "embedding",
       .name = "ids_of_floats",
       .inputs = {f32_normal({4, 3}), f32_normal({2})},
       .error = ErrorCode::shape_mismatch,
       .error_text = "ids must be i32"},
      {.op = "embedding",
       .name = "table_of_rank_1",
       .inputs = {f32_normal({4}), i32_between({2}, 0, 3)},
       .error = ErrorCode::shape_mismatch,
       .error_text = "table must have rank 2"},
      {.op = "embedding_grad",
       .name = "repeated_ids",
       .inputs = {i32_values({2, 3}, {1, 1, 5, 0, 1, 5}), f32_normal({2, 3, 4})},
       .attrs = rows_6,
       .is_exact_on_integers = true},
      {.op = "embedding_grad",
       .name = "many_ids",
       .inputs = {i32_between({200}, 0, 39), f32_normal({200, 7})},
       .attrs = rows_40,
       .is_exact_on_integers = true},
      {.op = "embedding_grad",
       .name = "id_too_large",
       .inputs = {i32_values({2}, {0, 6}), f32_normal({2, 4})},
       .attrs = rows_6,
       .error = ErrorCode::bad_data,
       .error_text = "id 6 is outside the table of 6 rows"},
      {.op = "embedding_grad",
       .name = "bad_shape",
       .inputs = {i32_between({2}, 0, 5), f32_normal({3, 4})},
       .attrs = rows_6,
       .error = ErrorCode::shape_mismatch,
       .error_text = "dy must have shape [2,4], not [3,4]"},
      {.op = "embedding_grad_accumulate",
       .name = "repeated_ids",
       .inputs = {f32_normal({6, 4}), i32_values({2, 3}, {1, 1, 5, 0, 1, 5}),
                  f32_normal({2, 3, 4})},
       .is_exact_on_integers = true},
      {.op = "embedding_grad_accumulate",
       .name = "many_ids",
       .inputs = {f32_normal({40, 7}), i32_between({200}, 0, 39), f32_normal({200, 7})},
       .is_exact_on_integers = true},
      {.op = "embedding_grad_accumulate",
       .name = "bad_width",
       .inputs = {f32_normal({6, 5}), i32_between({2}, 0, 5), f32_normal({2, 4})},
       .error = ErrorCode::shape_mismatch,
       .error_text = "acc must have shape [6,4], not [6,5]"},
  };
  add_halves(cases);
  return cases;
}

}  // namespace snug
