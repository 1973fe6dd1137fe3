// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {
namespace {

// Learning rate 0.01 in the third update with betas 0.9 and 0.999.
CaseInput hyper() { return f32_values({4}, {0.01, 0.271, 0.002997001, 0}); }
Attrs adamw_attrs(double weight_decay, double beta1 = 0.9) {
  return {{"beta1", beta1}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", weight_decay}};
}
Attrs sgd_attrs(double weight_decay) { return {{"weight_decay", weight_decay}}; }
Attrs momentum_attrs(bool nesterov, double weight_decay) {
  return {{"momentum", 0.9}, {"nesterov", nesterov}, {"weight_decay", weight_decay}};
}

std::vector<OpCase> small_cases() {
  return {
      {.op = "accumulate",
       .name = "matrix",
       .inputs = {f32_normal({3, 7}), f32_normal({3, 7})},
       .is_exact_on_integers = true},
      {.op = "accumulate",
       .name = "scalar",
       .inputs = {f32_normal({}), f32_normal({})},
       .is_exact_on_integers = true},
      {.op = "accumulate", .name = "empty", .inputs = {f32_normal({0, 3}), f32_normal({0, 3})}},
      {.op = "accumulate",
       .name = "bad_shape",
       .inputs = {f32_normal({3, 7}), f32_normal({7})},
       .error = ErrorCode::shape_mismatch,
       .error_text = "x must have shape [3,7], not [7]"},
      {.op = "set_zero",
       .name = "matrix",
       .inputs = {f32_normal({3, 7})},
       .is_exact_on_integers = true},
      {.op = "set_zero",
       .name = "integers",
       .inputs = {i32_between({3}, 0, 5)},
       .error = ErrorCode::shape_mismatch,
       .error_text = "x must be f32"},
      {.op = "global_norm",
       .name = "measures",
       .inputs = {f32_positive({}), f32_positive({}), f32_positive({})}},
      {.op = "global_norm",
       .name = "clips",
       .inputs = {f32_values({}, {9}), f32_values({}, {16})},
       .attrs = {{"max_norm", 1.0}}},
      {.op = "global_norm",
       .name = "below_the_limit",
       .inputs = {f32_values({}, {0.25})},
       .attrs = {{"max_norm", 1.0}}},
      {.op = "global_norm",
       .name = "zero",
       .inputs = {f32_values({}, {0})},
       .attrs = {{"max_norm", 1.0}}},
      {.op = "global_norm",
       .name = "bad_shape",
       .inputs = {f32_positive({}), f32_positive({2})},
       .error = ErrorCode::shape_mismatch,
       .error_text = "every sum of squares must have shape []"},
      {.op = "global_norm",
       .name = "negative_limit",
       .inputs = {f32_positive({})},
       .attrs = {{"max_norm", -1.0}},
       .error = ErrorCode::shape_mismatch,
       .error_text = "max_norm must not be negative"},
  };
}

std::vector<OpCase> step_cases() {
  return {
      {.op = "adamw",
       .name = "decay_and_clip",
       .inputs = {f32_normal({5, 9}), f32_normal({5, 9}), f32_normal({5, 9}), f32_positive({5, 9}),
                  hyper(), f32_values({}, {0.3})},
       .attrs = adamw_attrs(0.1)},
      {.op = "adamw",
       .name = "without_clip",
       .inputs = {f32_normal({133}), f32_normal({133}), f32_normal({133}), f32_positive({133}),
                  hyper(), absent()},
       .attrs = adamw_attrs(0)},
      {.op = "adamw",
       .name = "bad_state",
       .inputs = {f32_normal({3}), f32_normal({3}), f32_normal({4}), f32_positive({3}), hyper(),
                  absent()},
       .attrs = adamw_attrs(0),
       .error = ErrorCode::shape_mismatch,
       .error_text = "m must have shape [3], not [4]"},
      {.op = "adamw",
       .name = "bad_beta",
       .inputs = {f32_normal({3}), f32_normal({3}), f32_normal({3}), f32_positive({3}), hyper(),
                  absent()},
       .attrs = adamw_attrs(0, 1.0),
       .error = ErrorCode::shape_mismatch,
       .error_text = "beta1 must be in [0, 1)"},
      {.op = "sgd",
       .name = "decay_and_clip",
       .inputs = {f32_normal({5, 9}), f32_normal({5, 9}), hyper(), f32_values({}, {0.3})},
       .attrs = sgd_attrs(0.1)},
      {.op = "sgd",
       .name = "plain",
       .inputs = {f32_normal({3}), f32_normal({3}), hyper(), absent()},
       .attrs = sgd_attrs(0)},
      {.op = "sgd",
       .name = "bad_hyper",
       .inputs = {f32_normal({3}), f32_normal({3}), f32_normal({3}), absent()},
       .attrs = sgd_attrs(0),
       .error = ErrorCode::shape_mismatch,
       .error_text = "hyper must have shape [4], not [3]"},
      {.op = "sgd_momentum",
       .name = "plain",
       .inputs = {f32_normal({5, 9}), f32_normal({5, 9}), f32_normal({5, 9}), hyper(), absent()},
       .attrs = momentum_attrs(false, 0)},
      {.op = "sgd_momentum",
       .name = "nesterov_decay_and_clip",
       .inputs = {f32_normal({77}), f32_normal({77}), f32_normal({77}), hyper(),
                  f32_values({}, {0.3})},
       .attrs = momentum_attrs(true, 0.1)},
      {.op = "sgd_momentum",
       .name = "bad_buffer",
       .inputs = {f32_normal({3}), f32_normal({3}), f32_normal({1}), hyper(), absent()},
       .attrs = momentum_attrs(false, 0),
       .error = ErrorCode::shape_mismatch,
       .error_text = "buffer must have shape [3], not [1]"},
  };
}

}  // namespace

std::vector<OpCase> optimizer_cases() {
  std::vector<OpCase> cases = small_cases();
  for (OpCase& c : step_cases()) cases.push_back(std::move(c));
  return cases;
}

}  // namespace snug
