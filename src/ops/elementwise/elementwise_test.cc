// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {
namespace {

using Cases = std::vector<OpCase>;

void add_unary(Cases& cases) {
  const auto both = [&](const char* op, auto input, std::vector<double> magnitudes,
                        bool is_exact = false) {
    for (const Shape& shape :
         {Shape{3, 5}, Shape{1}, Shape{}, Shape{2, 1, 3}, Shape{7, 143}, Shape{0, 3}}) {
      cases.push_back({.op = op,
                       .name = "of" + to_string(shape),
                       .inputs = {input(shape)},
                       .magnitudes = magnitudes,
                       .is_exact_on_integers = is_exact});
    }
  };
  const auto normal = [](const Shape& s) { return f32_normal(s); };
  const auto positive = [](const Shape& s) { return f32_positive(s); };
  both("neg", normal, {1, 4}, true);
  both("exp", normal, {1, 2});
  both("log", positive, {1, 16});
  both("sqrt", positive, {1, 16});
  both("rsqrt", positive, {1, 16});
  both("tanh", normal, {0.25, 1});
  both("erf", normal, {0.25, 1});
  both("sigmoid", normal, {1, 2});
  const auto one_positive = [](const Shape& s) {
    return element_count(s) == 1 ? f32_positive(s) : f32_away_from_zero(s);
  };
  both("relu", one_positive, {1, 4}, true);
  both("gelu", normal, {0.5, 1});
  for (const Shape& shape : {Shape{3, 5}, Shape{3, 1000}, Shape{}}) {
    cases.push_back({.op = "relu_grad",
                     .name = "of" + to_string(shape),
                     .inputs = {f32_away_from_zero(shape), f32_normal(shape)},
                     .is_exact_on_integers = true});
  }
  cases.push_back({.op = "relu_grad",
                   .name = "at_zero",
                   .inputs = {f32_values({4}, {0, -0.0, 1e-30, 3}), f32_normal({4})}});
  for (const char* approximate : {"none", "tanh"}) {
    const Attrs attrs = {{"approximate", std::string(approximate)}};
    const std::string name = approximate;
    cases.push_back({.op = "gelu",
                     .name = name,
                     .inputs = {f32_normal({4, 9})},
                     .attrs = attrs,
                     .magnitudes = {0.5, 1, 2}});
    cases.push_back({.op = "gelu",
                     .name = name + "_far",
                     .inputs = {f32_values({6}, {-30, -8, -5, 5, 8, 30})},
                     .attrs = attrs});
    cases.push_back({.op = "gelu_grad",
                     .name = name,
                     .inputs = {f32_normal({4, 9}), f32_normal({4, 9})},
                     .attrs = attrs});
    cases.push_back({.op = "gelu_grad",
                     .name = name + "_rows",
                     .inputs = {f32_normal({3, 1000}), f32_normal({3, 1000})},
                     .attrs = attrs});
    cases.push_back({.op = "gelu_grad",
                     .name = name + "_far",
                     .inputs = {f32_values({6}, {-30, -8, -5, 5, 8, 30}), f32_normal({6})},
                     .attrs = attrs});
  }
  cases.push_back(
      {.op = "scale", .name = "half", .inputs = {f32_normal({3, 5})}, .attrs = {{"factor", 0.5}}});
  cases.push_back({.op = "scale",
                   .name = "odd_size",
                   .inputs = {f32_normal({1037})},
                   .attrs = {{"factor", -3.0}},
                   .is_exact_on_integers = true});
  cases.push_back({.op = "scale",
                   .name = "third",
                   .inputs = {f32_normal({2, 1, 5})},
                   .attrs = {{"factor", 1.0 / 3}}});
  cases.push_back({.op = "sigmoid",
                   .name = "saturated",
                   .inputs = {f32_values({4}, {-90, -20, 20, 90})},
                   .differentiated_outputs = {}});  // differences of a constant have no digits
  cases.push_back({.op = "exp", .name = "far", .inputs = {f32_values({4}, {-80, -20, 20, 60})}});
  cases.push_back(
      {.op = "tanh", .name = "far", .inputs = {f32_values({5}, {-9, -2, 0.0001, 2, 9})}});
  cases.push_back(
      {.op = "erf", .name = "far", .inputs = {f32_values({5}, {-5, -2, 0.0001, 2, 5})}});
}

struct ShapePair {
  const char* name;
  Shape a;
  Shape b;
};
std::vector<ShapePair> operand_shapes() {
  return {{"same", {3, 5}, {3, 5}},
          {"scalar", {3, 5}, {}},
          {"scalar_first", {}, {3, 5}},
          {"row", {4, 3}, {3}},
          {"row_first", {3}, {4, 3}},
          {"column", {4, 3}, {4, 1}},
          {"outer", {4, 1}, {1, 3}},
          {"middle", {2, 3, 4}, {2, 1, 4}},
          {"both_ranks", {3, 1, 2}, {4, 1}},
          {"ones", {1, 1}, {1}},
          {"long_rows", {3, 1000}, {1000}},
          {"odd", {7, 147}, {7, 147}},
          {"long_column", {129, 7}, {129, 1}},
          {"empty", {0, 3}, {3}}};
}

void add_binary(Cases& cases) {
  for (const ShapePair& shapes : operand_shapes()) {
    for (const char* op : {"add", "sub", "mul"}) {
      cases.push_back({.op = op,
                       .name = shapes.name,
                       .inputs = {f32_normal(shapes.a), f32_normal(shapes.b)},
                       .is_exact_on_integers = true});
    }
    cases.push_back({.op = "div",
                     .name = shapes.name,
                     .inputs = {f32_normal(shapes.a), f32_away_from_zero(shapes.b, 0.5)}});
    for (const char* op :
         {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}) {
      cases.push_back(
          {.op = op, .name = shapes.name, .inputs = {f32_normal(shapes.a), f32_normal(shapes.b)}});
      cases.push_back({.op = op,
                       .name = std::string(shapes.name) + "_i32",
                       .inputs = {i32_between(shapes.a, 0, 2), i32_between(shapes.b, 0, 2)}});
    }
  }
  cases.push_back({.op = "add",
                   .name = "does_not_broadcast",
                   .inputs = {f32_normal({3, 5}), f32_normal({4})},
                   .error = ErrorCode::shape_mismatch,
                   .error_text = "shapes [3,5] and [4] do not broadcast"});
  cases.push_back({.op = "mul",
                   .name = "wrong_type",
                   .inputs = {f32_normal({3}), i32_between({3}, 0, 4)},
                   .error = ErrorCode::shape_mismatch,
                   .error_text = "b must be f32, not i32[3]"});
  cases.push_back({.op = "less",
                   .name = "mixed_types",
                   .inputs = {f32_normal({3}), i32_between({3}, 0, 4)},
                   .error = ErrorCode::shape_mismatch,
                   .error_text = "a and b must both be f32 or both i32, not f32[3] and i32[3]"});
}

void add_where(Cases& cases) {
  const auto add = [&](const char* name, CaseInput condition, Shape a, Shape b) {
    cases.push_back(
        {.op = "where",
         .name = name,
         .inputs = {std::move(condition), f32_normal(std::move(a)), f32_normal(std::move(b))},
         .is_exact_on_integers = true});
  };
  add("same", bool_values({2, 3}, {1, 0, 0, 1, 1, 0}), {2, 3}, {2, 3});
  add("scalars", bool_values({2, 3}, {1, 0, 0, 1, 1, 0}), {}, {});
  add("condition_column", bool_values({2, 1}, {1, 0}), {2, 3}, {3});
  add("condition_scalar_broadcast", bool_values({3, 1}, {1, 0, 1}), {1, 2}, {3, 1});
  add("long", bool_random({5, 1000}), {5, 1000}, {1000});
  add("empty", bool_random({0, 3}), {3}, {0, 3});
  cases.push_back(
      {.op = "where",
       .name = "i32",
       .inputs = {bool_random({3, 5}), i32_between({3, 5}, -4, 4), i32_between({5}, -4, 4)},
       .differentiated_outputs = {}});
  cases.push_back({.op = "where",
                   .name = "condition_is_f32",
                   .inputs = {f32_normal({3}), f32_normal({3}), f32_normal({3})},
                   .error = ErrorCode::shape_mismatch,
                   .error_text = "condition must be bool, not f32[3]"});
  cases.push_back({.op = "where",
                   .name = "sides_differ",
                   .inputs = {bool_random({3}), f32_normal({3}), i32_between({3}, 0, 1)},
                   .error = ErrorCode::shape_mismatch,
                   .error_text = "a and b must have one element type"});
}

void add_cast_and_fill(Cases& cases) {
  const auto to = [](const char* dtype) { return Attrs{{"to", std::string(dtype)}}; };
  const CaseInput odd = f32_values({7}, {-2.5, -0.25, 0, 0.75, 1, 3e9, -3e9});
  cases.push_back(
      {.op = "cast", .name = "f32_to_f32", .inputs = {f32_normal({3, 5})}, .attrs = to("f32")});
  cases.push_back({.op = "cast",
                   .name = "f32_to_i32",
                   .inputs = {odd},
                   .attrs = to("i32"),
                   .differentiated_outputs = {}});
  cases.push_back({.op = "cast",
                   .name = "f32_to_bool",
                   .inputs = {odd},
                   .attrs = to("bool"),
                   .differentiated_outputs = {}});
  for (const char* dtype : {"f32", "i32", "bool"}) {
    cases.push_back({.op = "cast",
                     .name = std::string("i32_to_") + dtype,
                     .inputs = {i32_between({3, 41}, -3, 3)},
                     .attrs = to(dtype),
                     .differentiated_outputs = {}});
    cases.push_back({.op = "cast",
                     .name = std::string("bool_to_") + dtype,
                     .inputs = {bool_random({3, 41})},
                     .attrs = to(dtype),
                     .differentiated_outputs = {}});
  }
  for (const auto& [name, dtype] : {std::pair("bf16", DType::bf16), std::pair("f16", DType::f16)}) {
    cases.push_back({.op = "cast",
                     .name = std::string("f32_to_") + name,
                     .inputs = {f32_normal({3, 41})},
                     .attrs = to(name),
                     .differentiated_outputs = {}});
    cases.push_back({.op = "cast",
                     .name = std::string(name) + "_to_f32",
                     .inputs = {{.type = {dtype, {3, 41}}}},
                     .attrs = to("f32"),
                     .differentiated_outputs = {}});
  }
  cases.push_back({.op = "cast",
                   .name = "unknown_type",
                   .inputs = {f32_normal({3})},
                   .attrs = to("f64"),
                   .error = ErrorCode::invalid_graph,
                   .error_text = "to must be f32, bf16, f16, i32 or bool, not 'f64'"});
  cases.push_back({.op = "cast",
                   .name = "of_i64",
                   .inputs = {rng_input()},
                   .attrs = to("f32"),
                   .error = ErrorCode::shape_mismatch,
                   .error_text = "x must not be i64"});
  for (const Shape& shape : {Shape{}, Shape{3, 7}, Shape{0}, Shape{1029}}) {
    cases.push_back({.op = "fill",
                     .name = "of" + to_string(shape),
                     .inputs = {},
                     .attrs = {{"value", 0.1}, {"shape", shape}}});
  }
  cases.push_back({.op = "fill",
                   .name = "negative_dim",
                   .inputs = {},
                   .attrs = {{"value", 1.0}, {"shape", Shape{-2}}},
                   .error = ErrorCode::shape_mismatch,
                   .error_text = "has a negative dim"});
  cases.push_back({.op = "fill",
                   .name = "more_than_f32_holds",
                   .inputs = {},
                   .attrs = {{"value", -1e39}, {"shape", Shape{2}}},
                   .error = ErrorCode::invalid_graph,
                   .error_text = "value -1e+39 is more than f32 holds"});
  cases.push_back({.op = "gelu",
                   .name = "unknown_approximation",
                   .inputs = {f32_normal({3})},
                   .attrs = {{"approximate", std::string("fast")}},
                   .error = ErrorCode::invalid_graph,
                   .error_text = "not \"fast\""});
  cases.push_back({.op = "relu_grad",
                   .name = "shapes_differ",
                   .inputs = {f32_normal({3}), f32_normal({3, 1})},
                   .error = ErrorCode::shape_mismatch,
                   .error_text = "dy must have shape [3], not [3,1]"});
  cases.push_back({.op = "gelu_grad",
                   .name = "shapes_differ",
                   .inputs = {f32_normal({3}), f32_normal({4})},
                   .error = ErrorCode::shape_mismatch,
                   .error_text = "dy must have shape [3], not [4]"});
  cases.push_back({.op = "scale",
                   .name = "no_factor",
                   .inputs = {f32_normal({3})},
                   .error = ErrorCode::invalid_graph,
                   .error_text = "needs the attribute 'factor'"});
  cases.push_back({.op = "exp",
                   .name = "of_i32",
                   .inputs = {i32_between({3}, 0, 1)},
                   .error = ErrorCode::shape_mismatch,
                   .error_text = "x must be f32, bf16 or f16, not i32[3]"});
}

}  // namespace

std::vector<OpCase> elementwise_cases() {
  Cases cases;
  add_unary(cases);
  add_binary(cases);
  add_where(cases);
  add_cast_and_fill(cases);
  return cases;
}

}  // namespace snug
