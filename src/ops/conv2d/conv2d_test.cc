// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {
namespace {

using Ints = std::vector<int64_t>;

// A convolution by its shapes; the gradients' cases follow from it.
struct Pattern {
  const char* name;
  Shape x;
  Shape w;
  Ints stride = {1, 1};
  Ints padding = {0, 0};
  Ints dilation = {1, 1};
  int64_t groups = 1;
  bool has_bias = false;
};

std::vector<Pattern> patterns() {
  return {
      {.name = "one_tap", .x = {2, 3, 4, 5}, .w = {3, 5, 1, 1}},
      {.name = "three_by_three", .x = {2, 5, 4, 3}, .w = {4, 3, 3, 3}, .padding = {1, 1}},
      {.name = "bias", .x = {1, 4, 4, 2}, .w = {3, 2, 3, 3}, .has_bias = true},
      {.name = "stride", .x = {2, 7, 6, 3}, .w = {2, 3, 3, 3}, .stride = {2, 2}, .padding = {1, 1}},
      {.name = "shortcut", .x = {2, 6, 6, 16}, .w = {32, 16, 1, 1}, .stride = {2, 2}},
      {.name = "unequal_pairs",
       .x = {1, 7, 5, 2},
       .w = {2, 2, 2, 3},
       .stride = {3, 1},
       .padding = {1, 2}},
      {.name = "dilation",
       .x = {1, 8, 7, 2},
       .w = {3, 2, 3, 2},
       .padding = {2, 0},
       .dilation = {2, 3}},
      {.name = "groups",
       .x = {2, 4, 5, 6},
       .w = {4, 3, 3, 3},
       .padding = {1, 1},
       .groups = 2,
       .has_bias = true},
      {.name = "depthwise",
       .x = {2, 5, 5, 16},
       .w = {16, 1, 3, 3},
       .padding = {1, 1},
       .groups = 16},
      {.name = "stem", .x = {2, 16, 15, 3}, .w = {8, 3, 7, 7}, .stride = {2, 2}, .padding = {3, 3}},
      {.name = "wide",
       .x = {2, 5, 6, 32},
       .w = {48, 32, 3, 3},
       .padding = {1, 1},
       .has_bias = true},
      {.name = "tiles",
       .x = {3, 14, 13, 32},
       .w = {64, 32, 3, 3},
       .padding = {1, 1},
       .has_bias = true},
      {.name = "tiles_unpadded", .x = {2, 8, 9, 32}, .w = {32, 32, 3, 3}},
      {.name = "tiles_padded_twice", .x = {1, 2, 3, 32}, .w = {32, 32, 3, 3}, .padding = {2, 1}},
      {.name = "tiles_in_slices", .x = {1, 3, 2, 480}, .w = {160, 480, 3, 3}, .padding = {1, 1}},
      {.name = "odd_channels", .x = {2, 6, 7, 19}, .w = {21, 19, 3, 3}, .padding = {1, 1}},
      {.name = "narrow", .x = {3, 2, 2, 24}, .w = {40, 24, 3, 3}, .padding = {1, 1}},
      {.name = "wide_groups",
       .x = {2, 4, 5, 12},
       .w = {10, 6, 3, 2},
       .stride = {2, 1},
       .padding = {1, 1},
       .groups = 2},
      {.name = "padding_alone", .x = {1, 1, 1, 2}, .w = {2, 2, 3, 3}, .padding = {1, 1}},
      {.name = "one_number", .x = {1, 1, 1, 1}, .w = {1, 1, 1, 1}},
      {.name = "no_images", .x = {0, 4, 4, 2}, .w = {3, 2, 3, 3}, .has_bias = true}};
}

Attrs attrs_of(const Pattern& p) {
  return {
      {"stride", p.stride}, {"padding", p.padding}, {"dilation", p.dilation}, {"groups", p.groups}};
}

int64_t places(const Pattern& p, size_t axis) {
  return (p.x[1 + axis] + 2 * p.padding[axis] - p.dilation[axis] * (p.w[2 + axis] - 1) - 1) /
             p.stride[axis] +
         1;
}

}  // namespace

std::vector<OpCase> conv2d_cases() {
  std::vector<OpCase> cases;
  for (const Pattern& p : patterns()) {
    const Shape y = {p.x[0], places(p, 0), places(p, 1), p.w[0]};
    const bool is_tiny = element_count(p.x) == 1;
    const auto operand = [&](const Shape& shape) {
      return is_tiny ? f32_away_from_zero(shape) : f32_normal(shape);
    };
    cases.push_back(
        {.op = "conv2d",
         .name = p.name,
         .inputs = {operand(p.x), operand(p.w), p.has_bias ? f32_normal({p.w[0]}) : absent()},
         .attrs = attrs_of(p),
         .is_exact_on_integers = true});
    // No images: the sums over them are zeros.
    Attrs attrs = attrs_of(p);
    attrs.set("image", Ints{p.x[1], p.x[2]});
    cases.push_back({.op = "conv2d_grad_input",
                     .name = p.name,
                     .inputs = {f32_normal(p.w), f32_normal(y)},
                     .attrs = attrs,
                     .is_exact_on_integers = true});
    attrs = attrs_of(p);
    attrs.set("kernel", Ints{p.w[2], p.w[3]});
    cases.push_back({.op = "conv2d_grad_weight",
                     .name = p.name,
                     .inputs = {f32_normal(p.x), f32_normal(y)},
                     .attrs = attrs,
                     .is_exact_on_integers = true});
  }
  const auto bad = [&](std::string name, Shape x, Shape w, Attrs attrs, std::string text) {
    cases.push_back({.op = "conv2d",
                     .name = std::move(name),
                     .inputs = {f32_normal(std::move(x)), f32_normal(std::move(w)), absent()},
                     .attrs = std::move(attrs),
                     .error = ErrorCode::shape_mismatch,
                     .error_text = std::move(text)});
  };
  bad("rank", {4, 4, 2}, {3, 2, 3, 3}, {}, "x must have rank 4, not f32[4,4,2]");
  bad("channels", {1, 4, 4, 2}, {3, 4, 3, 3}, {},
      "w [3,4,3,3] in 1 groups reads 4 channels, x [1,4,4,2] has 2");
  bad("uneven_groups", {1, 4, 4, 4}, {3, 2, 3, 3}, {{"groups", int64_t{2}}},
      "2 groups do not divide the 3 output channels of w [3,2,3,3]");
  bad("no_group", {1, 4, 4, 4}, {3, 2, 3, 3}, {{"groups", int64_t{0}}},
      "groups must be at least 1");
  bad("too_large", {1, 2, 4, 2}, {3, 2, 3, 3}, {},
      "w [3,2,3,3] does not fit on the padded image of x [1,2,4,2]");
  bad("no_stride", {1, 4, 4, 2}, {3, 2, 3, 3}, {{"stride", Ints{1, 0}}},
      "stride must be two numbers of at least 1, not [1,0]");
  bad("one_padding", {1, 4, 4, 2}, {3, 2, 3, 3}, {{"padding", Ints{1}}},
      "padding must be two numbers of at least 0, not [1]");
  cases.push_back({.op = "conv2d_grad_input",
                   .name = "image",
                   .inputs = {f32_normal({3, 2, 3, 3}), f32_normal({1, 4, 4, 3})},
                   .attrs = {{"image", Ints{4, 4}}},
                   .error = ErrorCode::shape_mismatch,
                   .error_text = "dy must have shape [1,2,2,3], not [1,4,4,3]"});
  cases.push_back({.op = "conv2d_grad_weight",
                   .name = "kernel",
                   .inputs = {f32_normal({1, 4, 4, 2}), f32_normal({1, 2, 2, 3})},
                   .attrs = {{"kernel", Ints{0, 3}}},
                   .error = ErrorCode::shape_mismatch,
                   .error_text = "kernel must be two numbers of at least 1, not [0,3]"});
  return cases;
}

}  // namespace snug
