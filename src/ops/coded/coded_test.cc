// SPDX-License-Identifier: Apache-2.0
#include "ops/coded/coded.h"

#include "ops/op_case.h"

namespace snug {

std::vector<OpCase> coded_cases() {
  const Attrs tb = {{"transpose_b", true}};
  const auto codes = [](Shape shape) {
    return CaseInput{
        .domain = Domain::integers, .type = {DType::u8, std::move(shape)}, .low = 1, .high = 255};
  };
  const auto halves = [](Shape shape, DType dtype = DType::bf16) {
    return CaseInput{.type = {dtype, std::move(shape)}};
  };
  constexpr DType k24 = DType::bf16x8;
  const auto scales = [](Shape shape) {
    return without_gradient(f32_positive(std::move(shape), 0.005, 0.02));
  };
  const auto product = [](std::string name, CaseInput a, CaseInput weight, CaseInput scale,
                          CaseInput bias, Attrs attrs = {}) {
    return OpCase{.op = "coded_matmul",
                  .name = std::move(name),
                  .inputs = {std::move(a), std::move(weight), std::move(scale), std::move(bias)},
                  .attrs = std::move(attrs)};
  };
  const auto bad = [&](std::string name, CaseInput weight, CaseInput scale, std::string text) {
    OpCase refused =
        product(std::move(name), f32_normal({3, 5}), std::move(weight), std::move(scale), absent());
    refused.error = ErrorCode::shape_mismatch;
    refused.error_text = std::move(text);
    return refused;
  };
  const auto rows = [](std::string name, CaseInput weight, CaseInput ids, CaseInput scale) {
    OpCase made{.op = "coded_embedding",
                .name = std::move(name),
                .inputs = {std::move(weight), std::move(ids), std::move(scale)}};
    if (made.inputs[0].type.dtype != k24) made.differentiated_outputs = {};
    return made;
  };
  const auto sums = [](std::string name, CaseInput weight, CaseInput ids, CaseInput scale) {
    CaseInput weights = f32_normal(ids.type.shape);
    return OpCase{
        .op = "coded_embedding_sum",
        .name = std::move(name),
        .inputs = {std::move(weight), std::move(ids), std::move(weights), std::move(scale)}};
  };
  std::vector<OpCase> cases = {
      product("plain", f32_normal({3, 5}), codes({5, 2}), scales({5, 1}), absent()),
      product("transpose_b", f32_normal({3, 5}), codes({2, 5}), scales({2, 1}), f32_normal({2}),
              tb),
      product("two_blocks", f32_normal({2, 300}), codes({3, 300}), scales({3, 2}), absent(), tb),
      product("two_blocks_across", f32_normal({2, 3}), codes({3, 300}), scales({3, 2}),
              f32_normal({300})),
      product("rows_of_rank_3", f32_normal({2, 3, 4}), codes({5, 4}), scales({5, 1}),
              f32_normal({5}), tb),
      product("bias_of_its_own_shape", f32_normal({3, 4}), codes({5, 4}), scales({5, 1}),
              f32_normal({3, 5}), tb),
      product("halves", f32_normal({3, 5}), halves({4, 5}), absent(), f32_normal({4}), tb),
      product("halves_across", f32_normal({3, 5}), halves({5, 4}), absent(), absent()),
      product("24_bits", f32_normal({2, 3, 5}), halves({4, 5}, k24), absent(), f32_normal({4}), tb),
      product("24_bits_across", f32_normal({3, 5}), halves({5, 4}, k24), absent(), absent()),
      product("several_panels_and_tiles", f32_normal({70, 64}), halves({4100, 64}), absent(),
              f32_normal({4100}), tb),
      product("several_panels_and_tiles_without_bias", f32_normal({70, 64}), halves({4100, 64}),
              absent(), absent(), tb),
      product("several_panels_and_tiles_across", f32_normal({70, 4100}), halves({4100, 64}),
              absent(), absent()),
      product("no_rows", f32_normal({0, 4}), codes({3, 4}), scales({3, 1}), f32_normal({3}), tb),
      bad("codes_without_scales", codes({5, 2}), absent(), "needs its scales"),
      bad("halves_with_scales", halves({5, 2}), scales({5, 1}), "has no scales"),
      bad("summed_dims_differ", codes({4, 2}), scales({4, 1}), "differ"),
      rows("rows", codes({5, 300}), i32_between({2, 3}, 0, 4), scales({5, 2})),
      rows("rows_of_halves", halves({5, 3}), i32_between({4}, 0, 4), absent()),
      rows("rows_of_24_bits", halves({5, 300}, k24), i32_between({4}, 0, 4), absent()),
      sums("sums", codes({5, 300}), i32_between({2, 3}, 0, 4), scales({5, 2})),
      sums("sums_of_24_bits", halves({5, 300}, k24), i32_between({2, 2, 3}, 0, 4), absent()),
      {.op = "upper_half", .name = "of_24_bits", .inputs = {halves({3, 300}, k24)}},
  };
  OpCase outside = rows("outside", halves({5, 3}), i32_values({1}, {5}), absent());
  outside.error = ErrorCode::bad_data;
  outside.error_text = "id 5 is outside the table of 5 rows";
  cases.push_back(outside);
  outside = sums("outside", halves({5, 3}), i32_values({1}, {5}), absent());
  outside.error = ErrorCode::bad_data;
  outside.error_text = "id 5 is outside the table of 5 rows";
  cases.push_back(outside);
  return cases;
}

}  // namespace snug
