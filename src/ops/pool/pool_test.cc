// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {
namespace {

using Ints = std::vector<int64_t>;

struct Pattern {
  const char* name;
  Shape x;
  Shape y;
  Ints kernel = {2, 2};
  Ints stride = {2, 2};
  Ints padding = {0, 0};
};

std::vector<Pattern> patterns() {
  return {{"halves", {2, 4, 6, 3}, {2, 2, 3, 3}},
          {"odd_image", {1, 5, 7, 2}, {1, 2, 3, 2}},
          {"overlapping", {2, 7, 6, 5}, {2, 4, 3, 5}, {3, 3}, {2, 2}, {1, 1}},
          {"dense", {1, 4, 4, 2}, {1, 3, 2, 2}, {2, 3}, {1, 1}},
          {"every_second_pixel", {2, 5, 4, 3}, {2, 3, 2, 3}, {1, 1}, {2, 2}},
          {"whole_image", {2, 3, 3, 4}, {2, 1, 1, 4}, {3, 3}, {3, 3}},
          {"many_channels", {2, 5, 4, 83}, {2, 3, 2, 83}, {3, 3}, {2, 2}, {1, 1}},
          {"no_images", {0, 4, 4, 2}, {0, 2, 2, 2}}};
}

}  // namespace

std::vector<OpCase> pool_cases() {
  std::vector<OpCase> cases;
  for (const Pattern& p : patterns()) {
    const Attrs attrs = {{"kernel", p.kernel}, {"stride", p.stride}, {"padding", p.padding}};
    cases.push_back({.op = "max_pool2d",
                     .name = p.name,
                     .inputs = {f32_distinct(p.x)},
                     .attrs = attrs,
                     .is_exact_on_integers = true});
    // Whole numbers have ties: the first maximum takes it all.
    cases.push_back({.op = "max_pool2d_grad",
                     .name = p.name,
                     .inputs = {f32_distinct(p.x), f32_normal(p.y)},
                     .attrs = attrs,
                     .is_exact_on_integers = true});
  }
  const Attrs row = {{"kernel", Ints{1, 2}}, {"stride", Ints{1, 2}}};
  const auto bad = [&](std::string name, Shape x, Attrs attrs, std::string text) {
    cases.push_back({.op = "max_pool2d",
                     .name = std::move(name),
                     .inputs = {f32_normal(std::move(x))},
                     .attrs = std::move(attrs),
                     .error = ErrorCode::shape_mismatch,
                     .error_text = std::move(text)});
  };
  bad("rank", {4, 4}, row, "x must have rank 4, not f32[4,4]");
  bad("too_large", {1, 1, 2, 1}, {{"kernel", Ints{2, 2}}, {"stride", Ints{1, 1}}},
      "the kernel [2,2] does not fit on the padded image of x [1,1,2,1]");
  bad("padding", {1, 4, 4, 1},
      {{"kernel", Ints{2, 2}}, {"stride", Ints{1, 1}}, {"padding", Ints{1, 2}}},
      "padding [1,2] is more than half of the kernel [2,2]");
  bad("stride", {1, 4, 4, 1}, {{"kernel", Ints{2, 2}}, {"stride", Ints{2}}},
      "stride must be two numbers of at least 1, not [2]");
  cases.push_back({.op = "max_pool2d_grad",
                   .name = "other_shape",
                   .inputs = {f32_normal({1, 4, 4, 1}), f32_normal({1, 2, 3, 1})},
                   .attrs = {{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}},
                   .error = ErrorCode::shape_mismatch,
                   .error_text = "dy must have shape [1,2,2,1], not [1,2,3,1]"});
  return cases;
}

}  // namespace snug
