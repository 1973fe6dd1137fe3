// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {
namespace {

Attrs dropout_attrs(double rate, int64_t ordinal = 7, int64_t sample_axis = 0) {
  return {{"rate", rate}, {"ordinal", ordinal}, {"sample_axis", sample_axis}};
}

}  // namespace

std::vector<OpCase> dropout_cases() {
  const Attrs without_ordinal = {{"rate", 0.1}};
  return {
      {.op = "dropout",
       .name = "odd_samples",
       .inputs = {f32_normal({3, 7}), rng_input()},
       .attrs = dropout_attrs(0.3)},
      {.op = "dropout",
       .name = "rank_3",
       .inputs = {f32_normal({2, 5, 9}), rng_input(1, 0, 0)},
       .attrs = dropout_attrs(0.1)},
      {.op = "dropout",
       .name = "long_row",
       .inputs = {f32_normal({2, 133}), rng_input()},
       .attrs = dropout_attrs(0.5)},
      {.op = "dropout",
       .name = "without_samples",
       .inputs = {f32_normal({6, 5}), rng_input()},
       .attrs = dropout_attrs(0.4, 2, -1)},
      {.op = "dropout",
       .name = "rate_0",
       .inputs = {f32_normal({3, 5}), rng_input()},
       .attrs = dropout_attrs(0.0),
       .is_exact_on_integers = true},
      {.op = "dropout",
       .name = "large_keys",
       .inputs = {f32_normal({2, 8}),
                  rng_input(int64_t{1} << 40, (int64_t{1} << 31) + 3, int64_t{1} << 31)},
       .attrs = dropout_attrs(0.5, 123456)},
      {.op = "dropout",
       .name = "no_elements",
       .inputs = {f32_normal({0, 3}), rng_input()},
       .attrs = dropout_attrs(0.5),
       .zero_gradient = true},
      {.op = "dropout",
       .name = "rate_1",
       .inputs = {f32_normal({3}), rng_input()},
       .attrs = dropout_attrs(1.0),
       .error = ErrorCode::shape_mismatch,
       .error_text = "rate must be in [0, 1)"},
      {.op = "dropout",
       .name = "other_axis",
       .inputs = {f32_normal({3, 4}), rng_input()},
       .attrs = dropout_attrs(0.1, 0, 1),
       .error = ErrorCode::shape_mismatch,
       .error_text = "sample_axis must be 0 or -1"},
      {.op = "dropout",
       .name = "scalar",
       .inputs = {f32_normal({}), rng_input()},
       .attrs = dropout_attrs(0.1),
       .error = ErrorCode::shape_mismatch,
       .error_text = "x has no axis 0"},
      {.op = "dropout",
       .name = "no_ordinal",
       .inputs = {f32_normal({3}), rng_input()},
       .attrs = without_ordinal,
       .error = ErrorCode::invalid_graph,
       .error_text = "needs the attribute 'ordinal'"},
      {.op = "dropout",
       .name = "rng_of_integers",
       .inputs = {f32_normal({3}), i32_between({3}, 0, 3)},
       .attrs = dropout_attrs(0.1),
       .error = ErrorCode::shape_mismatch,
       .error_text = "rng must be i64"},
  };
}

}  // namespace snug
