// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {

namespace {
constexpr int64_t kColumns = 32;  // of a panel: every instruction set takes it
}  // namespace

std::vector<OpCase> packed_matmul_cases() {
  const auto pack = [](std::string name, Shape w, bool transpose, int64_t width = kColumns) {
    return OpCase{.op = "pack_weight",
                  .name = std::move(name),
                  .inputs = {f32_normal(std::move(w))},
                  .attrs = {{"transpose", transpose}, {"width", width}},
                  .is_exact_on_integers = true};
  };
  const auto product = [](std::string name, Shape a, Shape panels, CaseInput bias,
                          int64_t columns) {
    return OpCase{
        .op = "packed_matmul",
        .name = std::move(name),
        .inputs = {f32_normal(std::move(a)), f32_normal(std::move(panels)), std::move(bias)},
        .attrs = {{"columns", columns}},
        .is_exact_on_integers = true};
  };
  const auto bad = [](OpCase of, std::string text) {
    of.is_exact_on_integers = false;
    of.error = ErrorCode::shape_mismatch;
    of.error_text = std::move(text);
    return of;
  };
  return {
      pack("rows", {5, 70}, false),
      pack("transposed", {70, 5}, true),
      pack("whole_panels", {9, 64}, false),
      pack("whole_panels_transposed", {64, 37}, true),
      pack("one_column", {3, 1}, false),
      pack("no_columns", {3, 0}, false),
      pack("nothing_summed", {40, 0}, true),
      bad(pack("of_rank_3", {2, 3, 4}, false), "w must have rank 2"),
      bad(pack("no_width", {3, 4}, false, 0), "width must be 1 or more, not 0"),
      product("plain", {3, 5}, {1, 5, kColumns}, absent(), 7),
      product("bias", {3, 5}, {2, 5, kColumns}, f32_normal({40}), 40),
      product("summed_onto", {5, 9}, {3, 9, kColumns}, f32_normal({5, 70}), 70),
      product("rows_of_rank_3", {2, 3, 4}, {2, 4, kColumns}, f32_normal({64}), 64),
      product("onto_rank_3", {2, 3, 4}, {1, 4, kColumns}, f32_normal({2, 3, 20}), 20),
      product("one_row", {1, 67}, {9, 67, kColumns}, absent(), 257),
      product("large_odd", {65, 393}, {7, 393, kColumns}, f32_normal({199}), 199),
      product("no_rows", {0, 4}, {1, 4, kColumns}, absent(), 3),
      product("nothing_summed", {2, 0}, {1, 0, kColumns}, f32_normal({3}), 3),
      bad(product("other_depth", {3, 5}, {1, 4, kColumns}, absent(), 7), "differ: 5 and 4"),
      bad(product("too_few_columns", {3, 5}, {2, 5, kColumns}, absent(), 32),
          "32 columns do not end in the last of panels"),
      bad(product("too_many_columns", {3, 5}, {2, 5, kColumns}, absent(), 65),
          "65 columns do not end"),
      bad(product("bias_of_another_width", {3, 5}, {1, 5, kColumns}, f32_normal({8}), 7), "bias"),
      bad(product("vector", {5}, {1, 5, kColumns}, absent(), 7), "must have rank 2 or more"),
  };
}

}  // namespace snug
