// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {
namespace {

CaseInput weights(std::vector<double> values) {
  const auto rows = static_cast<int64_t>(values.size());
  return without_gradient(f32_values({rows}, std::move(values)));
}
CaseInput scalar(double value) { return without_gradient(f32_values({}, {value})); }
Attrs smoothing(double value) { return {{"label_smoothing", value}}; }
Attrs focal(double gamma) { return {{"focal_gamma", gamma}}; }

std::vector<OpCase> cross_entropy_cases() {
  const Attrs ignore_2 = {{"ignore_index", int64_t{2}}};
  return {
      {.op = "softmax_cross_entropy",
       .name = "plain",
       .inputs = {f32_normal({4, 7}), i32_values({4}, {0, 6, 3, 3}), weights({1, 1, 1, 1}),
                  scalar(0.25)}},
      {.op = "softmax_cross_entropy",
       .name = "weights_and_smoothing",
       .inputs = {f32_normal({3, 5}), i32_values({3}, {4, 0, 2}), weights({0.5, 2, 0}),
                  scalar(0.4)},
       .attrs = smoothing(0.1)},
      {.op = "softmax_cross_entropy",
       .name = "full_smoothing",
       .inputs = {f32_normal({2, 3}), i32_values({2}, {0, 1}), weights({1, 1}), scalar(0.5)},
       .attrs = smoothing(1.0)},
      {.op = "softmax_cross_entropy",
       .name = "ignored_rows",
       .inputs = {f32_normal({4, 3}), i32_values({4}, {-100, 2, 0, -100}), weights({1, 1, 1, 1}),
                  scalar(0.5)}},
      {.op = "softmax_cross_entropy",
       .name = "another_ignore_index",
       .inputs = {f32_normal({3, 3}), i32_values({3}, {2, 1, 0}), weights({1, 1, 1}), scalar(0.5)},
       .attrs = ignore_2},
      {.op = "softmax_cross_entropy",
       .name = "many_classes",
       .inputs = {f32_normal({2, 301}), i32_values({2}, {300, 17}), weights({1, 3}), scalar(0.25)}},
      {.op = "softmax_cross_entropy",
       .name = "all_ignored",
       .inputs = {f32_normal({2, 3}), i32_values({2}, {-100, -100}), weights({1, 1}), scalar(1)},
       .zero_gradient = true},
      {.op = "softmax_cross_entropy",
       .name = "one_class",
       .inputs = {f32_normal({2, 1}), i32_values({2}, {0, 0}), weights({1, 1}), scalar(1)},
       .zero_gradient = true},
      {.op = "softmax_cross_entropy",
       .name = "focal",
       .inputs = {f32_normal({4, 5}), i32_values({4}, {4, 0, -100, 2}), weights({0.5, 2, 1, 1}),
                  scalar(0.4)},
       .attrs = focal(2)},
      {.op = "softmax_cross_entropy",
       .name = "focal_below_one",
       .inputs = {f32_normal({3, 2}), i32_values({3}, {1, 0, 1}), weights({1, 1, 0}), scalar(0.5)},
       .attrs = focal(0.5)},
      {.op = "softmax_cross_entropy",
       .name = "focal_and_smoothing",
       .inputs = {f32_normal({1, 3}), i32_values({1}, {0}), weights({1}), scalar(1)},
       .attrs = {{"focal_gamma", 1.0}, {"label_smoothing", 0.1}},
       .error = ErrorCode::shape_mismatch,
       .error_text = "focal_gamma goes without label_smoothing"},
      {.op = "softmax_cross_entropy",
       .name = "label_too_large",
       .inputs = {f32_normal({2, 3}), i32_values({2}, {0, 3}), weights({1, 1}), scalar(1)},
       .error = ErrorCode::bad_data,
       .error_text = "label 3 of row 1 is outside the 3 classes"},
      {.op = "softmax_cross_entropy",
       .name = "negative_label",
       .inputs = {f32_normal({2, 3}), i32_values({2}, {-1, 0}), weights({1, 1}), scalar(1)},
       .error = ErrorCode::bad_data,
       .error_text = "label -1 of row 0"},
      {.op = "softmax_cross_entropy",
       .name = "too_few_labels",
       .inputs = {f32_normal({2, 3}), i32_values({1}, {0}), weights({1, 1}), scalar(1)},
       .error = ErrorCode::shape_mismatch,
       .error_text = "labels must have shape [2], not [1]"},
      {.op = "softmax_cross_entropy",
       .name = "bad_smoothing",
       .inputs = {f32_normal({2, 3}), i32_values({2}, {0, 1}), weights({1, 1}), scalar(1)},
       .attrs = smoothing(1.5),
       .error = ErrorCode::shape_mismatch,
       .error_text = "label_smoothing must be in [0, 1]"},
      {.op = "softmax_cross_entropy_grad",
       .name = "plain",
       .inputs = {f32_normal({3, 5}), i32_values({3}, {4, -100, 2}), f32_values({3}, {0.5, 2, 1}),
                  f32_values({}, {0.4}), derived("softmax_cross_entropy", {0, 1, 2, 3}, {}, 1),
                  f32_normal({})},
       .attrs = smoothing(0.1)},
      {.op = "softmax_cross_entropy_grad",
       .name = "focal",
       .inputs = {f32_normal({3, 5}), i32_values({3}, {4, -100, 2}), f32_values({3}, {0.5, 2, 1}),
                  f32_values({}, {0.4}), derived("softmax_cross_entropy", {0, 1, 2, 3}, {}, 1),
                  f32_normal({})},
       .attrs = focal(2)},
      {.op = "softmax_cross_entropy_grad",
       .name = "label_too_large",
       .inputs = {f32_normal({1, 3}), i32_values({1}, {3}), f32_values({1}, {1}),
                  f32_values({}, {1}), f32_normal({1}), f32_normal({})},
       .error = ErrorCode::bad_data,
       .error_text = "label 3 of row 0"},
  };
}

std::vector<OpCase> squared_cases() {
  return {
      {.op = "mean_squared_error",
       .name = "matrix",
       .inputs = {f32_normal({3, 5}), f32_normal({3, 5}), weights({1, 0.5, 2}), scalar(0.3)}},
      {.op = "mean_squared_error",
       .name = "vector",
       .inputs = {f32_normal({4}), f32_normal({4}), weights({1, 0, 1, 1}), scalar(1)}},
      {.op = "mean_squared_error",
       .name = "all_weights_zero",
       .inputs = {f32_normal({2, 3}), f32_normal({2, 3}), weights({0, 0}), scalar(1)},
       .zero_gradient = true},
      {.op = "mean_squared_error",
       .name = "bad_target",
       .inputs = {f32_normal({2, 3}), f32_normal({3}), weights({1, 1}), scalar(1)},
       .error = ErrorCode::shape_mismatch,
       .error_text = "target must have shape [2,3], not [3]"},
      {.op = "mean_squared_error_grad",
       .name = "matrix",
       .inputs = {f32_normal({3, 5}), f32_normal({3, 5}), f32_values({3}, {1, 0.5, 2}),
                  f32_values({}, {0.3}), f32_normal({})}},
      {.op = "mean_squared_error_grad",
       .name = "bad_dloss",
       .inputs = {f32_normal({2, 3}), f32_normal({2, 3}), f32_values({2}, {1, 1}),
                  f32_values({}, {1}), f32_normal({1})},
       .error = ErrorCode::shape_mismatch,
       .error_text = "dloss must have shape []"},
  };
}

// Away from the corners at a distance of 1: distances of 0.1 to 0.7, and of 1.5 and more.
std::vector<OpCase> smooth_l1_cases() {
  const CaseInput pred = f32_values({2, 3}, {0.1, -0.7, 2.5, -1.5, 0.3, 4});
  const CaseInput target = f32_values({2, 3}, {0.4, -0.2, 0.5, 0.5, 0, -4});
  return {
      {.op = "smooth_l1",
       .name = "near_and_far",
       .inputs = {pred, target, weights({1, 0.5}), scalar(0.3)}},
      {.op = "smooth_l1",
       .name = "vector_with_a_row_that_does_not_count",
       .inputs = {f32_values({3}, {0.1, 9, -3}), f32_values({3}, {0.3, 1, 3}), weights({1, 0, 2}),
                  scalar(1)}},
      {.op = "smooth_l1",
       .name = "bad_target",
       .inputs = {f32_normal({2, 3}), f32_normal({3}), weights({1, 1}), scalar(1)},
       .error = ErrorCode::shape_mismatch,
       .error_text = "target must have shape [2,3], not [3]"},
      {.op = "smooth_l1_grad",
       .name = "near_and_far",
       .inputs = {pred, target, f32_values({2}, {1, 0.5}), f32_values({}, {0.3}), f32_normal({})}},
  };
}

std::vector<OpCase> binary_cases() {
  const CaseInput target = without_gradient(f32_values({3, 2}, {0, 1, 1, 1, 0, 0.25}));
  return {
      {.op = "binary_cross_entropy",
       .name = "matrix",
       .inputs = {f32_normal({3, 2}), target, weights({1, 0.5, 2}), scalar(0.3)}},
      {.op = "binary_cross_entropy",
       .name = "focal",
       .inputs = {f32_normal({3, 2}), target, weights({1, 0.5, 2}), scalar(0.3)},
       .attrs = focal(2)},
      {.op = "binary_cross_entropy_grad",
       .name = "focal",
       .inputs = {f32_normal({3, 2}), target, f32_values({3}, {1, 0, 2}), f32_values({}, {0.3}),
                  f32_normal({})},
       .attrs = focal(1.5)},
      {.op = "binary_cross_entropy",
       .name = "large_logits",
       .inputs = {f32_values({3, 2}, {-30, 30, 9, -7, 0.5, 12}), target, weights({1, 1, 1}),
                  scalar(0.3)}},
      {.op = "binary_cross_entropy",
       .name = "all_weights_zero",
       .inputs = {f32_normal({3, 2}), target, weights({0, 0, 0}), scalar(1)},
       .zero_gradient = true},
      {.op = "binary_cross_entropy_grad",
       .name = "matrix",
       .inputs = {f32_normal({3, 2}), target, f32_values({3}, {1, 0, 2}), f32_values({}, {0.3}),
                  f32_normal({})}},
      {.op = "binary_cross_entropy_grad",
       .name = "bad_dloss",
       .inputs = {f32_normal({2, 3}), f32_normal({2, 3}), f32_values({2}, {1, 1}),
                  f32_values({}, {1}), f32_normal({1})},
       .error = ErrorCode::shape_mismatch,
       .error_text = "dloss must have shape []"},
  };
}

}  // namespace

std::vector<OpCase> loss_cases() {
  std::vector<OpCase> cases = cross_entropy_cases();
  for (const auto more : {squared_cases, smooth_l1_cases, binary_cases}) {
    for (OpCase& c : more()) cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace snug
