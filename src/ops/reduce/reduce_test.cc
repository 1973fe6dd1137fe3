// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {
namespace {

struct Pattern {
  const char* name;
  Shape x;
  std::vector<int64_t> axes;
  bool keep_dims = false;
};
std::vector<Pattern> patterns() {
  return {{"rows", {3, 5}, {1}},
          {"columns", {3, 5}, {0}},
          {"all", {3, 5}, {0, 1}},
          {"keep_rows", {3, 5}, {-1}, true},
          {"middle", {2, 3, 4}, {1}},
          {"middle_keep", {2, 3, 4}, {1}, true},
          {"ends", {2, 3, 4}, {2, 0}},
          {"leading", {2, 3, 4}, {0, 1}},
          {"none", {2, 3}, {}},
          {"scalar", {}, {}},
          {"size_one", {1, 4, 1}, {0, 2}},
          {"long_rows", {7, 1000}, {1}},
          {"long_columns", {301, 67}, {0}},
          {"long_all", {13, 1037}, {0, 1}},
          {"many_leading", {4, 33, 129}, {0, 1}},
          {"no_result", {0, 3}, {1}}};
}

}  // namespace

std::vector<OpCase> reduce_cases() {
  std::vector<OpCase> cases;
  for (const Pattern& pattern : patterns()) {
    const Attrs attrs = {{"axes", pattern.axes}, {"keep_dims", pattern.keep_dims}};
    cases.push_back({.op = "reduce_sum",
                     .name = pattern.name,
                     .inputs = {f32_normal(pattern.x)},
                     .attrs = attrs,
                     .is_exact_on_integers = true});
    cases.push_back({.op = "reduce_mean",
                     .name = pattern.name,
                     .inputs = {f32_normal(pattern.x)},
                     .attrs = attrs});
    cases.push_back({.op = "reduce_max",
                     .name = pattern.name,
                     .inputs = {f32_distinct(pattern.x)},
                     .attrs = attrs,
                     .is_exact_on_integers = true});
  }
  for (const Shape& shape : {Shape{3, 5}, Shape{1}, Shape{}, Shape{101, 333}}) {
    cases.push_back({.op = "sum_squares",
                     .name = "of" + to_string(shape),
                     .inputs = {f32_away_from_zero(shape)},
                     .is_exact_on_integers = true});
  }
  cases.push_back({.op = "sum_squares", .name = "of_nothing", .inputs = {f32_normal({0, 3})}});
  cases.push_back({.op = "reduce_sum",
                   .name = "of_nothing",
                   .inputs = {f32_normal({0, 3})},
                   .attrs = {{"axes", std::vector<int64_t>{0}}}});
  const auto bad = [&](const char* op, const char* name, Shape x, std::vector<int64_t> axes,
                       const char* text) {
    cases.push_back({.op = op,
                     .name = name,
                     .inputs = {f32_normal(std::move(x))},
                     .attrs = {{"axes", std::move(axes)}},
                     .error = ErrorCode::shape_mismatch,
                     .error_text = text});
  };
  for (const char* op : {"reduce_sum", "reduce_mean", "reduce_max"}) {
    bad(op, "axis", {3, 5}, {2}, "axis 2 is out of range for rank 2");
    bad(op, "axis_twice", {3, 5}, {1, -1}, "axes [1,-1] name a dim of x [3,5] twice");
  }
  bad("reduce_mean", "of_nothing", {0, 3}, {0},
      "there is nothing to reduce along an axis of x [0,3]");
  bad("reduce_max", "of_nothing", {0, 3}, {0},
      "there is nothing to reduce along an axis of x [0,3]");
  cases.push_back({.op = "reduce_sum",
                   .name = "of_i32",
                   .inputs = {i32_between({3}, 0, 4)},
                   .attrs = {{"axes", std::vector<int64_t>{0}}},
                   .error = ErrorCode::shape_mismatch,
                   .error_text = "x must be f32, bf16 or f16, not i32[3]"});
  cases.push_back({.op = "sum_squares",
                   .name = "of_i32",
                   .inputs = {i32_between({3}, 0, 4)},
                   .error = ErrorCode::shape_mismatch,
                   .error_text = "x must be f32, not i32[3]"});
  return cases;
}

}  // namespace snug
