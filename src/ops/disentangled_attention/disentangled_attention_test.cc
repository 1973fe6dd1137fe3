// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {
namespace {

Attrs pairs(int64_t heads, int64_t buckets = 0, int64_t max_distance = 0, double rate = 0,
            int64_t ordinal = 0) {
  return {{"heads", heads},
          {"rate", rate},
          {"ordinal", ordinal},
          {"buckets", buckets},
          {"max_distance", max_distance}};
}
CaseInput tokens(int64_t samples, int64_t length, int64_t width) {
  return f32_normal({samples, length, width});
}
CaseInput table(int64_t span, int64_t width) { return f32_normal({2 * span, width}); }

struct Tables {
  CaseInput pos_key = absent();
  CaseInput pos_query = absent();
};
Tables both(int64_t span, int64_t width) { return {table(span, width), table(span, width)}; }

std::vector<CaseInput> inputs(int64_t samples, int64_t length, int64_t width, Tables tables,
                              CaseInput mask = absent(), CaseInput rng = absent()) {
  return {tokens(samples, length, width),
          tokens(samples, length, width),
          tokens(samples, length, width),
          std::move(tables.pos_key),
          std::move(tables.pos_query),
          std::move(mask),
          std::move(rng)};
}
// With one key to choose its weight is 1 whatever the score.
std::vector<CaseInput> weightless(std::vector<CaseInput> inputs) {
  for (const size_t i : {0U, 1U, 3U, 4U}) inputs[i] = with_zero_gradient(inputs[i]);
  return inputs;
}

// o and lse are any numbers: the formula is defined for them, and a kernel must follow it.
OpCase grad(const char* name, int64_t samples, int64_t length, int64_t width, Attrs attrs,
            Tables tables, CaseInput mask = absent(), CaseInput rng = absent()) {
  return {.op = "disentangled_attention_grad",
          .name = name,
          .inputs = {tokens(samples, length, width), tokens(samples, length, width),
                     tokens(samples, length, width), tokens(samples, length, width),
                     f32_normal({samples, attrs.int64("heads"), length}),
                     tokens(samples, length, width), std::move(tables.pos_key),
                     std::move(tables.pos_query), std::move(mask), std::move(rng)},
          .attrs = std::move(attrs),
          .magnitudes = {1}};
}

std::vector<OpCase> grad_cases() {
  return {
      grad("every_distance", 2, 5, 6, pairs(2), both(5, 6)),
      grad("clamped_distances", 2, 5, 6, pairs(2), both(2, 6)),
      grad("buckets", 2, 9, 6, pairs(2, 6, 9), both(6, 6)),
      grad("no_tables", 2, 5, 6, pairs(2), {}),
      grad("pos_key_alone", 1, 5, 6, pairs(3), {table(4, 6), absent()}),
      grad("pos_query_alone", 1, 5, 6, pairs(3), {absent(), table(4, 6)}),
      grad("masked", 2, 5, 6, pairs(2), both(4, 6),
           bool_values({2, 5}, {1, 1, 0, 1, 0, 0, 1, 1, 1, 1})),
      grad("one_sample_fully_masked", 2, 3, 4, pairs(2), both(3, 4),
           bool_values({2, 3}, {1, 0, 1, 0, 0, 0})),
      grad("dropout", 2, 5, 6, pairs(3, 0, 0, 0.3, 4), both(4, 6), absent(), rng_input()),
      grad("long_with_dropout_and_mask", 2, 67, 16, pairs(2, 16, 48, 0.2, 9), both(16, 16),
           bool_random({2, 67}, 0.7), rng_input()),
  };
}

std::vector<OpCase> forward_cases() {
  const auto forward = [](const char* name, std::vector<CaseInput> of, Attrs attrs) {
    return OpCase{.op = "disentangled_attention",
                  .name = name,
                  .inputs = std::move(of),
                  .attrs = std::move(attrs)};
  };
  std::vector<OpCase> cases = {
      forward("every_distance", inputs(1, 5, 4, both(5, 4)), pairs(1)),
      forward("clamped_distances", inputs(2, 5, 6, both(2, 6)), pairs(2)),
      forward("buckets", inputs(2, 9, 6, both(6, 6)), pairs(2, 6, 9)),
      forward("buckets_of_odd_number", inputs(1, 12, 4, both(7, 4)), pairs(1, 7, 9)),
      forward("buckets_that_skip_rows", inputs(1, 12, 4, both(10, 4)), pairs(1, 10, 8)),
      forward("near_tokens_alone", inputs(1, 5, 4, both(8, 4)), pairs(1, 8, 4)),
      forward("no_tables", inputs(2, 3, 9, {}), pairs(3)),
      forward("pos_key_alone", inputs(2, 5, 6, {table(3, 6), absent()}), pairs(2)),
      forward("pos_query_alone", inputs(2, 5, 6, {absent(), table(3, 6)}), pairs(2)),
      forward("one_token", weightless(inputs(2, 1, 4, both(2, 4))), pairs(2)),
      forward("masked", inputs(2, 4, 6, both(3, 6), bool_values({2, 4}, {1, 1, 1, 0, 0, 1, 0, 1})),
              pairs(2)),
      forward("one_visible_token",
              weightless(inputs(1, 4, 4, both(2, 4), bool_values({1, 4}, {0, 0, 1, 0}))), pairs(2)),
      forward("one_sample_fully_masked",
              inputs(2, 3, 4, both(2, 4), bool_values({2, 3}, {1, 0, 1, 0, 0, 0})), pairs(2)),
      forward("everything_masked", inputs(1, 3, 4, both(2, 4), bool_values({1, 3}, {0, 0, 0})),
              pairs(2)),
      forward("dropout", inputs(2, 5, 4, both(4, 4), absent(), rng_input()),
              pairs(2, 0, 0, 0.3, 9)),
      forward("dropout_and_mask",
              inputs(2, 4, 6, both(4, 6), bool_values({2, 4}, {1, 1, 1, 0, 1, 1, 0, 1}),
                     rng_input(7, 1, 100)),
              pairs(3, 2, 3, 0.2, 1)),
      forward("longer_than_a_tile",
              inputs(1, 67, 16, both(16, 16), bool_random({1, 67}, 0.8), rng_input()),
              pairs(2, 16, 48, 0.1, 5)),
      forward("deberta_sized", inputs(2, 33, 64, both(16, 64)), pairs(1, 16, 64)),
  };
  for (OpCase& c : cases) c.zero_gradient = c.name == "everything_masked";
  return cases;
}

std::vector<OpCase> error_cases() {
  const auto bad = [](const char* name, Tables tables, Attrs attrs, const char* text) {
    return OpCase{.op = "disentangled_attention",
                  .name = name,
                  .inputs = inputs(1, 6, 4, std::move(tables)),
                  .attrs = std::move(attrs),
                  .error = ErrorCode::shape_mismatch,
                  .error_text = text};
  };
  std::vector<OpCase> cases = {
      bad("heads_do_not_divide", both(2, 4), pairs(3), "3 heads do not divide the width 4"),
      bad("table_of_another_width", {table(2, 6), absent()}, pairs(2),
          "pos_key must have shape [4,4], not [4,6]"),
      bad("tables_of_two_sizes", {table(2, 4), table(3, 4)}, pairs(2),
          "pos_query must have shape [4,4], not [6,4]"),
      bad("table_of_odd_rows", {absent(), f32_normal({3, 4})}, pairs(2),
          "pos_query must have a row for each of 2 span distances, not 3 rows"),
      bad("one_bucket", both(2, 4), pairs(2, 1, 9), "buckets must be 0, or 2 or more, not 1"),
      bad("buckets_without_room", both(2, 4), pairs(2, 8, 5),
          "8 buckets for 6 tokens need a max_distance above 5, not 5"),
      bad("dropout_without_rng", both(2, 4), pairs(2, 0, 0, 0.5),
          "a rate above 0 needs the input rng"),
  };
  OpCase bad_lse = grad("bad_lse", 1, 2, 4, pairs(2), both(2, 4));
  bad_lse.inputs[4] = f32_normal({1, 2});
  bad_lse.error = ErrorCode::shape_mismatch;
  bad_lse.error_text = "lse must have shape [1,2,2]";
  cases.push_back(std::move(bad_lse));
  return cases;
}

}  // namespace

std::vector<OpCase> disentangled_attention_cases() {
  std::vector<OpCase> cases = forward_cases();
  for (OpCase& c : grad_cases()) cases.push_back(std::move(c));
  for (OpCase& c : error_cases()) cases.push_back(std::move(c));
  return cases;
}

}  // namespace snug
