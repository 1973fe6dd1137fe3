// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {
namespace {

struct Pattern {
  const char* name;
  Shape x;
};
std::vector<Pattern> patterns() {
  return {{"images", {2, 3, 4, 5}},
          {"rows", {7, 3}},
          {"two_rows", {2, 16}},
          {"one_channel", {3, 5, 4, 1}},
          {"wide", {4, 3, 3, 130}},
          {"many_rows", {2, 41, 25, 33}},
          {"several_blocks_a_part", {9, 16, 16, 128}}};
}

}  // namespace

std::vector<OpCase> batch_norm_cases() {
  std::vector<OpCase> cases;
  const Attrs eps = {{"eps", 1e-3}};
  for (const Pattern& p : patterns()) {
    const Shape channels = {p.x.back()};
    cases.push_back(
        {.op = "batch_norm",
         .name = p.name,
         .inputs = {f32_normal(p.x), f32_away_from_zero(channels), f32_normal(channels)},
         .attrs = eps});
    cases.push_back(
        {.op = "batch_norm_grad",
         .name = p.name,
         .inputs = {f32_normal(p.x), f32_normal(channels), derived("batch_norm", {0, 1, 1}, eps, 1),
                    derived("batch_norm", {0, 1, 1}, eps, 2), f32_normal(p.x)},
         .attrs = eps});
    cases.push_back({.op = "batch_norm_inference",
                     .name = p.name,
                     .inputs = {f32_normal(p.x), f32_normal(channels), f32_normal(channels),
                                f32_normal(channels), f32_positive(channels)},
                     .attrs = eps});
  }
  // Far from zero: a variance from the mean of squares would have no digits left.
  cases.push_back(
      {.op = "batch_norm",
       .name = "far_from_zero",
       .inputs = {f32_positive({500, 3}, 1000, 1001), f32_away_from_zero({3}), f32_normal({3})},
       .magnitudes = {1}});
  cases.push_back({.op = "batch_norm_inference",
                   .name = "no_rows",
                   .inputs = {f32_normal({0, 3}), f32_normal({3}), f32_normal({3}), f32_normal({3}),
                              f32_positive({3})}});
  for (const int64_t rows : {1, 2, 100}) {
    cases.push_back(
        {.op = "running_statistics",
         .name = "of_" + std::to_string(rows),
         .inputs = {f32_normal({5}), f32_positive({5}), f32_normal({5}), f32_positive({5})},
         .attrs = {{"momentum", 0.125}, {"rows", rows}}});
  }
  const auto bad = [&](const char* op, std::string name, std::vector<Shape> shapes, Attrs attrs,
                       std::string text) {
    OpCase c{.op = op,
             .name = std::move(name),
             .inputs = {},
             .attrs = std::move(attrs),
             .error = ErrorCode::shape_mismatch,
             .error_text = std::move(text)};
    for (Shape& shape : shapes) c.inputs.push_back(f32_normal(std::move(shape)));
    cases.push_back(std::move(c));
  };
  bad("batch_norm", "vector", {{4}, {4}, {4}}, {}, "x [4] has no rows of channels");
  bad("batch_norm", "nothing", {{0, 4}, {4}, {4}}, {}, "x [0,4] has no elements to normalise");
  bad("batch_norm", "gamma", {{2, 4}, {3}, {4}}, {}, "gamma must have shape [4], not [3]");
  bad("batch_norm", "eps", {{2, 4}, {4}, {4}}, {{"eps", -1.0}}, "eps must not be negative");
  bad("batch_norm_grad", "dy", {{2, 4}, {4}, {4}, {4}, {4, 2}}, {},
      "dy must have shape [2,4], not [4,2]");
  bad("batch_norm_inference", "variance", {{2, 4}, {4}, {4}, {4}, {1}}, {},
      "variance must have shape [4], not [1]");
  bad("running_statistics", "mean", {{4}, {4}, {3}, {4}}, {{"rows", int64_t{2}}},
      "mean must have shape [4], not [3]");
  bad("running_statistics", "momentum", {{4}, {4}, {4}, {4}},
      {{"rows", int64_t{2}}, {"momentum", 2.0}}, "momentum must be between 0 and 1");
  bad("running_statistics", "rows", {{4}, {4}, {4}, {4}}, {{"rows", int64_t{0}}},
      "rows must be at least 1");
  return cases;
}

}  // namespace snug
