// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/op_case.h"

namespace snug {
namespace {

struct Pattern {
  const char* name;
  int64_t rows;
  int64_t hidden;
  std::vector<double> mask;
};
std::vector<Pattern> patterns() {
  return {{"odd", 3, 7, {1, 1, 1}},
          {"one_unit", 2, 1, {1, 1}},
          {"some_rows_have_ended", 5, 9, {1, 0, 1, 1, 0}},
          {"whole_vectors", 2, 32, {0, 1}},
          {"all_rows_have_ended", 3, 5, {0, 0, 0}},
          {"several_threads", 67, 129, std::vector<double>(67, 1)}};
}

}  // namespace

std::vector<OpCase> lstm_cases() {
  std::vector<OpCase> cases;
  for (const Pattern& p : patterns()) {
    const Shape gates = {p.rows, 4 * p.hidden};
    const Shape state = {p.rows, p.hidden};
    const CaseInput mask = bool_values({p.rows}, p.mask);
    const bool has_ended = std::find(p.mask.begin(), p.mask.end(), 0.0) != p.mask.end();
    const bool goes_on = std::find(p.mask.begin(), p.mask.end(), 1.0) != p.mask.end();
    const CaseInput with = f32_normal(state);
    const CaseInput without = with_zero_gradient(f32_normal(state));
    const CaseInput in_gates = goes_on ? f32_normal(gates) : with_zero_gradient(f32_normal(gates));
    // One case for each of the two states, as at the last step of a net.
    cases.push_back(
        {.op = "lstm_cell",
         .name = p.name,
         .inputs = {in_gates, goes_on ? with : without, has_ended ? with : without, mask},
         .differentiated_outputs = {0}});
    cases.push_back({.op = "lstm_cell",
                     .name = std::string(p.name) + "_by_c",
                     .inputs = {in_gates, with, without, mask},
                     .differentiated_outputs = {1}});
    cases.push_back({.op = "lstm_cell_grad",
                     .name = p.name,
                     .inputs = {f32_normal(gates), f32_normal(state), mask, f32_normal(state),
                                f32_normal(state)}});
  }
  const Shape gates = {3, 20};
  const Shape state = {3, 5};
  const CaseInput mask = bool_values({3}, {1, 0, 1});
  const auto cell_fails = [&](const char* name, std::vector<CaseInput> inputs, const char* text) {
    cases.push_back({.op = "lstm_cell",
                     .name = name,
                     .inputs = std::move(inputs),
                     .error = ErrorCode::shape_mismatch,
                     .error_text = text});
  };
  cases.push_back(
      {.op = "lstm_cell_grad",
       .name = "without_dc",
       .inputs = {f32_normal(gates), f32_normal(state), mask, f32_normal(state), absent()}});
  cases.push_back(
      {.op = "lstm_cell_grad",
       .name = "without_dh",
       .inputs = {f32_normal(gates), f32_normal(state), mask, absent(), f32_normal(state)}});
  cell_fails("other_hidden_size", {f32_normal({3, 24}), f32_normal(state), f32_normal(state), mask},
             "c must have shape [3,6], not [3,5]");
  cell_fails("gates_not_in_four", {f32_normal({3, 18}), f32_normal(state), f32_normal(state), mask},
             "gates [3,18] do not have four equal parts in a row");
  cell_fails("bad_h", {f32_normal(gates), f32_normal(state), f32_normal({3, 6}), mask},
             "h must have shape [3,5], not [3,6]");
  cell_fails("mask_of_tokens",
             {f32_normal(gates), f32_normal(state), f32_normal(state), bool_random({3, 5})},
             "mask must have shape [3], not [3,5]");
  cell_fails("mask_of_floats",
             {f32_normal(gates), f32_normal(state), f32_normal(state), f32_normal({3})},
             "mask must be bool");
  cases.push_back({.op = "lstm_cell_grad",
                   .name = "bad_dh",
                   .inputs = {f32_normal(gates), f32_normal(state), mask, f32_normal({3, 4}),
                              f32_normal(state)},
                   .error = ErrorCode::shape_mismatch,
                   .error_text = "dh_next must have shape [3,5], not [3,4]"});
  return cases;
}

}  // namespace snug
