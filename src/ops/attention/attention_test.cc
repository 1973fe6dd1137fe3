// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {
namespace {

Attrs heads(int64_t count, double rate = 0, int64_t ordinal = 0) {
  return {{"heads", count}, {"rate", rate}, {"ordinal", ordinal}};
}
Attrs windowed(int64_t window, double rate = 0) {
  return {{"heads", int64_t{2}}, {"rate", rate}, {"ordinal", int64_t{7}}, {"window", window}};
}
CaseInput tokens(int64_t samples, int64_t length, int64_t width) {
  return f32_normal({samples, length, width});
}
// q, k, v and what follows.
std::vector<CaseInput> qkv(int64_t samples, int64_t length, int64_t width,
                           CaseInput mask = absent(), CaseInput rng = absent()) {
  return {tokens(samples, length, width), tokens(samples, length, width),
          tokens(samples, length, width), std::move(mask), std::move(rng)};
}
// The same with one key to choose: its weight is 1 whatever q and k are.
std::vector<CaseInput> weightless(std::vector<CaseInput> inputs) {
  for (size_t i : {0u, 1u}) inputs[i] = with_zero_gradient(inputs[i]);
  return inputs;
}
// The inputs of attention_grad with o and lse as attention gives them without mask and rng.
std::vector<CaseInput> grad_inputs(int64_t samples, int64_t length, int64_t width,
                                   const Attrs& attrs) {
  CaseInput o = derived("attention", {0, 1, 2, -1, -1}, attrs, 0);
  CaseInput lse = derived("attention", {0, 1, 2, -1, -1}, attrs, 1);
  return {tokens(samples, length, width),
          tokens(samples, length, width),
          tokens(samples, length, width),
          std::move(o),
          std::move(lse),
          tokens(samples, length, width),
          absent(),
          absent()};
}

// With a mask or rng, o and lse are any numbers: the formula is defined for them, and a kernel must
// follow it.
OpCase masked_grad(const char* name, int64_t samples, int64_t length, int64_t width, Attrs attrs,
                   CaseInput mask, CaseInput rng) {
  return {.op = "attention_grad",
          .name = name,
          .inputs = {tokens(samples, length, width), tokens(samples, length, width),
                     tokens(samples, length, width), tokens(samples, length, width),
                     f32_normal({samples, attrs.int64("heads"), length}),
                     tokens(samples, length, width), std::move(mask), std::move(rng)},
          .attrs = std::move(attrs),
          .magnitudes = {1}};
}

std::vector<OpCase> grad_cases() {
  return {
      {.op = "attention_grad",
       .name = "two_heads",
       .inputs = grad_inputs(2, 5, 6, heads(2)),
       .attrs = heads(2)},
      {.op = "attention_grad",
       .name = "longer_than_a_tile",
       .inputs = grad_inputs(1, 67, 16, heads(2)),
       .attrs = heads(2)},
      masked_grad("masked_keys", 2, 5, 6, heads(2),
                  bool_values({2, 5}, {1, 1, 0, 1, 0, 0, 1, 1, 1, 1}), absent()),
      masked_grad("one_sample_fully_masked", 2, 3, 4, heads(2),
                  bool_values({2, 3}, {1, 0, 1, 0, 0, 0}), absent()),
      masked_grad("dropout", 2, 5, 6, heads(3, 0.3, 4), absent(), rng_input()),
      {.op = "attention_grad",
       .name = "window",
       .inputs = grad_inputs(2, 7, 4, windowed(2)),
       .attrs = windowed(2)},
      masked_grad("window_of_a_long_text", 2, 150, 8, windowed(20, 0.2), bool_random({2, 150}, 0.7),
                  rng_input()),
      masked_grad("long_with_dropout_and_mask", 2, 67, 16, heads(2, 0.2, 9),
                  bool_random({2, 67}, 0.7), rng_input()),
  };
}

std::vector<OpCase> forward_cases() {
  return {
      {.op = "attention", .name = "one_head", .inputs = qkv(1, 5, 4), .attrs = heads(1)},
      {.op = "attention", .name = "heads_of_odd_width", .inputs = qkv(2, 3, 9), .attrs = heads(3)},
      {.op = "attention",
       .name = "one_token",
       .inputs = weightless(qkv(2, 1, 4)),
       .attrs = heads(2)},
      {.op = "attention",
       .name = "masked_keys",
       .inputs = qkv(2, 4, 6, bool_values({2, 4}, {1, 1, 1, 0, 0, 1, 0, 1})),
       .attrs = heads(2)},
      {.op = "attention",
       .name = "one_visible_key",
       .inputs = weightless(qkv(1, 4, 4, bool_values({1, 4}, {0, 0, 1, 0}))),
       .attrs = heads(2)},
      {.op = "attention",
       .name = "one_sample_fully_masked",
       .inputs = qkv(2, 3, 4, bool_values({2, 3}, {1, 0, 1, 0, 0, 0})),
       .attrs = heads(2)},
      {.op = "attention",
       .name = "everything_masked",
       .inputs = qkv(1, 3, 4, bool_values({1, 3}, {0, 0, 0})),
       .attrs = heads(2),
       .zero_gradient = true},
      {.op = "attention",
       .name = "dropout",
       .inputs = qkv(2, 5, 4, absent(), rng_input()),
       .attrs = heads(2, 0.3, 9)},
      {.op = "attention",
       .name = "dropout_and_mask",
       .inputs = qkv(2, 4, 6, bool_values({2, 4}, {1, 1, 1, 0, 1, 1, 0, 1}), rng_input(7, 1, 100)),
       .attrs = heads(3, 0.2, 1)},
      {.op = "attention",
       .name = "longer_than_a_tile",
       .inputs = qkv(1, 67, 16, bool_random({1, 67}, 0.8), rng_input()),
       .attrs = heads(2, 0.1, 5)},
      {.op = "attention", .name = "window", .inputs = qkv(2, 7, 4), .attrs = windowed(2)},
      {.op = "attention",
       .name = "window_and_left_padding",
       .inputs = qkv(1, 6, 4, bool_values({1, 6}, {0, 0, 0, 0, 1, 1})),
       .attrs = windowed(1)},
      {.op = "attention",
       .name = "window_of_a_long_text",
       .inputs = qkv(1, 150, 8, bool_random({1, 150}, 0.7), rng_input()),
       .attrs = windowed(20, 0.1)},
      {.op = "attention", .name = "bert_sized", .inputs = qkv(2, 33, 64), .attrs = heads(1)},
  };
}

std::vector<OpCase> error_cases() {
  return {
      {.op = "attention",
       .name = "heads_do_not_divide",
       .inputs = qkv(1, 2, 6),
       .attrs = heads(4),
       .error = ErrorCode::shape_mismatch,
       .error_text = "4 heads do not divide the width 6"},
      {.op = "attention",
       .name = "no_heads",
       .inputs = qkv(1, 2, 6),
       .attrs = heads(0),
       .error = ErrorCode::shape_mismatch,
       .error_text = "0 heads do not divide"},
      {.op = "attention",
       .name = "keys_of_another_length",
       .inputs = {tokens(1, 2, 4), tokens(1, 3, 4), tokens(1, 3, 4), absent(), absent()},
       .attrs = heads(2),
       .error = ErrorCode::shape_mismatch,
       .error_text = "k must have shape [1,2,4], not [1,3,4]"},
      {.op = "attention",
       .name = "mask_of_another_length",
       .inputs = qkv(1, 2, 4, bool_random({1, 3})),
       .attrs = heads(2),
       .error = ErrorCode::shape_mismatch,
       .error_text = "mask must have shape [1,2]"},
      {.op = "attention",
       .name = "dropout_without_rng",
       .inputs = qkv(1, 2, 4),
       .attrs = heads(2, 0.5),
       .error = ErrorCode::shape_mismatch,
       .error_text = "a rate above 0 needs the input rng"},
      {.op = "attention",
       .name = "rate_1",
       .inputs = qkv(1, 2, 4, absent(), rng_input()),
       .attrs = heads(2, 1.0),
       .error = ErrorCode::shape_mismatch,
       .error_text = "rate must be in [0, 1)"},
      {.op = "attention",
       .name = "ordinal_too_large",
       .inputs = qkv(1, 2, 4, absent(), rng_input()),
       .attrs = heads(2, 0.5, int64_t{1} << 20),
       .error = ErrorCode::shape_mismatch,
       .error_text = "is not in [0, 2^20)"},
      {.op = "attention",
       .name = "negative_window",
       .inputs = qkv(1, 2, 4),
       .attrs = windowed(-1),
       .error = ErrorCode::shape_mismatch,
       .error_text = "window must not be negative"},
      {.op = "attention_grad",
       .name = "bad_lse",
       .inputs = {tokens(1, 2, 4), tokens(1, 2, 4), tokens(1, 2, 4), tokens(1, 2, 4),
                  f32_normal({1, 2}), tokens(1, 2, 4), absent(), absent()},
       .attrs = heads(2),
       .error = ErrorCode::shape_mismatch,
       .error_text = "lse must have shape [1,2,2]"},
  };
}

}  // namespace

std::vector<OpCase> attention_cases() {
  std::vector<OpCase> cases = forward_cases();
  for (OpCase& c : grad_cases()) cases.push_back(std::move(c));
  for (OpCase& c : error_cases()) cases.push_back(std::move(c));
  return cases;
}

}  // namespace snug
