// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {

std::vector<OpCase> matmul_cases() {
  const Attrs ta = {{"transpose_a", true}};
  const Attrs tb = {{"transpose_b", true}};
  const Attrs both = {{"transpose_a", true}, {"transpose_b", true}};
  const auto good = [](std::string name, CaseInput a, CaseInput b, CaseInput bias,
                       Attrs attrs = {}) {
    return OpCase{.op = "matmul",
                  .name = std::move(name),
                  .inputs = {std::move(a), std::move(b), std::move(bias)},
                  .attrs = std::move(attrs),
                  .is_exact_on_integers = true};
  };
  const auto bad = [](std::string name, Shape a, Shape b, CaseInput bias, Attrs attrs,
                      std::string text) {
    return OpCase{.op = "matmul",
                  .name = std::move(name),
                  .inputs = {f32_normal(std::move(a)), f32_normal(std::move(b)), std::move(bias)},
                  .attrs = std::move(attrs),
                  .error = ErrorCode::shape_mismatch,
                  .error_text = std::move(text)};
  };
  const auto sum = [](std::string name, Shape acc, Shape a, Shape b, Attrs attrs = {}) {
    return OpCase{
        .op = "matmul_accumulate",
        .name = std::move(name),
        .inputs = {f32_normal(std::move(acc)), f32_normal(std::move(a)), f32_normal(std::move(b))},
        .attrs = std::move(attrs),
        .is_exact_on_integers = true};
  };
  std::vector<OpCase> cases = {
      good("plain", f32_normal({3, 5}), f32_normal({5, 2}), absent()),
      good("bias", f32_normal({3, 5}), f32_normal({5, 2}), f32_normal({2})),
      good("transpose_a", f32_normal({5, 3}), f32_normal({5, 2}), absent(), ta),
      good("transpose_b", f32_normal({3, 5}), f32_normal({2, 5}), f32_normal({2}), tb),
      good("transpose_both", f32_normal({5, 3}), f32_normal({2, 5}), absent(), both),
      good("ones", f32_away_from_zero({1, 1}), f32_away_from_zero({1, 1}), f32_normal({1})),
      good("row", f32_normal({1, 7}), f32_normal({7, 3}), absent()),
      good("column", f32_normal({7, 1}), f32_normal({1, 3}), absent(), {}),
      good("rows_of_rank_3", f32_normal({2, 3, 4}), f32_normal({4, 5}), f32_normal({5})),
      good("rows_of_rank_4_transpose_b", f32_normal({2, 1, 3, 4}), f32_normal({5, 4}),
           f32_normal({5}), tb),
      good("batched", f32_normal({2, 3, 4}), f32_normal({2, 4, 3}), absent()),
      good("batched_transpose_a", f32_normal({2, 4, 3}), f32_normal({2, 4, 3}), absent(), ta),
      good("batched_transpose_b", f32_normal({3, 2, 4}), f32_normal({3, 3, 4}), f32_normal({3}),
           tb),
      good("batched_transpose_both_rank_4", f32_normal({2, 2, 4, 1}), f32_normal({2, 2, 3, 4}),
           absent(), both),
      good("no_rows", f32_normal({0, 4}), f32_normal({4, 3}), f32_normal({3})),
      good("no_batch", f32_normal({0, 2, 4}), f32_normal({0, 4, 3}), absent()),
      good("nothing_summed", f32_normal({2, 0}), f32_normal({0, 3}), f32_normal({3})),
      good("large_odd", f32_normal({130, 67}), f32_normal({67, 257}), f32_normal({257})),
      good("large_transpose_b", f32_normal({2, 65, 128}), f32_normal({96, 128}), f32_normal({96}),
           tb),
      good("large_transpose_a", f32_normal({96, 65}), f32_normal({96, 129}), absent(), ta),
      good("many_rows", f32_normal({260, 34}), f32_normal({34, 40}), f32_normal({40})),
      good("many_rows_transpose_b", f32_normal({260, 34}), f32_normal({40, 34}), absent(), tb),
      bad("summed_dims_differ", {3, 5}, {4, 2}, absent(), {},
          "the summed dims of a [3,5] and b [4,2] differ: 5 and 4"),
      bad("rank_1", {5}, {5, 2}, absent(), {}, "must have rank 2 or more"),
      bad("batches_differ", {2, 3, 4}, {3, 4, 3}, absent(), {},
          "must have the same leading dims, or b rank 2"),
      bad("ranks_differ", {2, 2, 3, 4}, {2, 4, 3}, absent(), {},
          "must have the same leading dims, or b rank 2"),
      bad("transposed_rows", {2, 4, 3}, {4, 5}, absent(), ta, "can be transposed only where"),
      good("sum_of_products", f32_normal({3, 5}), f32_normal({5, 2}), f32_normal({3, 2})),
      good("sum_of_products_transpose_b", f32_normal({32, 67}), f32_normal({130, 67}),
           f32_normal({32, 130}), tb),
      good("sum_of_products_transpose_a", f32_normal({96, 65}), f32_normal({96, 1301}),
           f32_normal({65, 1301}), ta),
      good("sum_of_products_swapped", f32_normal({257, 65}), f32_normal({257, 1301}),
           f32_normal({65, 1301}), ta),
      good("sum_of_products_packed", f32_normal({70, 33}), f32_normal({33, 1301}),
           f32_normal({70, 1301})),
      good("sum_of_products_rank_3", f32_normal({2, 3, 4}), f32_normal({4, 5}),
           f32_normal({2, 3, 5})),
      good("sum_of_products_batched", f32_normal({2, 3, 4}), f32_normal({2, 4, 3}),
           f32_normal({2, 3, 3})),
      bad("bias_of_another_matrix", {3, 5}, {5, 2}, f32_normal({5, 2}), {},
          "bias must have shape [2], not [5,2]"),
      bad("bias_shape", {3, 5}, {5, 2}, f32_normal({3}), {}, "bias must have shape [2], not [3]"),
      bad("bias_type", {3, 5}, {5, 2}, i32_between({2}, 0, 3), {}, "bias must be f32, not i32[2]"),
      sum("plain", {3, 2}, {3, 5}, {5, 2}),
      sum("transpose_a", {3, 2}, {5, 3}, {5, 2}, ta),
      sum("transpose_b", {3, 2}, {3, 5}, {2, 5}, tb),
      sum("transpose_both", {3, 2}, {5, 3}, {2, 5}, both),
      sum("ones", {1, 1}, {1, 1}, {1, 1}),
      sum("nothing_summed", {3, 2}, {3, 0}, {0, 2}),
      sum("large_odd", {65, 129}, {130, 65}, {130, 129}, ta),
      sum("long_transpose_a", {64, 24}, {1100, 64}, {1100, 24}, ta),
  };
  OpCase wrong = sum("wrong_acc", {2, 2}, {3, 5}, {5, 2});
  wrong.error = ErrorCode::shape_mismatch;
  wrong.error_text = "acc must have shape [3,2], not [2,2]";
  cases.push_back(wrong);
  OpCase rank = sum("rank_3", {2, 3, 2}, {2, 3, 5}, {2, 5, 2});
  rank.error = ErrorCode::shape_mismatch;
  rank.error_text = "a must have rank 2, not f32[2,3,5]";
  cases.push_back(rank);
  return cases;
}

}  // namespace snug
