// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {
namespace {

Attrs turning(int64_t heads, double theta = 10000) { return {{"heads", heads}, {"theta", theta}}; }

OpCase refused(const char* name, Shape shape, Attrs attrs, const char* text) {
  return {.op = "rotary_qkv",
          .name = name,
          .inputs = {f32_normal(std::move(shape))},
          .attrs = std::move(attrs),
          .error = ErrorCode::shape_mismatch,
          .error_text = text};
}

}  // namespace

std::vector<OpCase> rotary_cases() {
  const CaseInput part = f32_normal({2, 9, 12});
  return {
      {.op = "rotary_qkv",
       .name = "one_pair",
       .inputs = {f32_normal({1, 3, 6})},
       .attrs = turning(1)},
      {.op = "rotary_qkv",
       .name = "heads",
       .inputs = {f32_normal({2, 9, 36})},
       .attrs = turning(2, 160000)},
      {.op = "rotary_qkv",
       .name = "pairs_of_odd_number",
       .inputs = {f32_normal({2, 5, 90})},
       .attrs = turning(3)},
      {.op = "rotary_qkv",
       .name = "long",
       .inputs = {f32_normal({1, 300, 24})},
       .attrs = turning(2)},
      {.op = "rotary_qkv",
       .name = "no_rows",
       .inputs = {f32_normal({0, 3, 12})},
       .attrs = turning(1),
       .zero_gradient = true},
      refused("no_thirds", {1, 2, 8}, turning(1), "has no three parts"),
      refused("odd_head", {1, 2, 18}, turning(2), "2 heads do not cut the width 6 into pairs"),
      refused("no_theta", {1, 2, 12}, turning(1, 0), "theta must be above 0"),
      {.op = "rotary_qkv_grad", .name = "heads", .inputs = {part, part, part}, .attrs = turning(3)},
      {.op = "rotary_qkv_grad",
       .name = "parts_differ",
       .inputs = {part, part, f32_normal({2, 9, 6})},
       .attrs = turning(3),
       .error = ErrorCode::shape_mismatch,
       .error_text = "dv must have shape [2,9,12]"},
  };
}

}  // namespace snug
