// SPDX-License-Identifier: Apache-2.0
// Test cases of ops as data: shapes, attributes and the domain that inputs are drawn from. No
// loops, no tolerances; the harness (tests/op) runs every case through shape rule, reference,
// gradient check, text form and CPU kernels.
//
//   std::vector<OpCase> softmax_cases() {
//     return {
//         {.op = "softmax", .name = "odd", .inputs = {f32_normal({3, 7})}},
//         {.op = "softmax", .name = "axis_0", .inputs = {f32_normal({5, 2})}, .attrs = {{"axis",
//         int64_t{0}}}},
//         {.op = "softmax", .name = "bad_axis", .inputs = {f32_normal({5})}, .attrs = {{"axis",
//         int64_t{4}}},
//          .error = ErrorCode::shape_mismatch, .error_text = "axis 4 is out of range"},
//     };
//   }
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "snug/attrs.h"
#include "snug/error.h"
#include "snug/types.h"

namespace snug {

/// How the values of one input come to be.
enum class Domain : uint8_t {
  absent,          // an optional input that is not given
  normal,          // N(0, 1), times the magnitude
  positive,        // uniform in [low, high], low > 0, times the magnitude
  away_from_zero,  // N(0, 1) moved away from 0 by `low`: for kinks and divisors; times the
                   // magnitude
  distinct,        // a shuffle of well separated values: for maxima; times the magnitude
  integers,        // whole numbers in [low, high]: ids, labels; a boolean input has 0 and 1, 1 with
                   // probability `high`
  values,          // exactly `values`
  derived,         // an output of another op, run on earlier inputs of this case
};

struct CaseInput {
  Domain domain = Domain::normal;
  TensorType type = {};
  double low = 0;
  double high = 1;
  std::vector<double> values = {};
  // What Domain::derived runs: the op, which inputs of this case it reads (-1: absent), its
  // attributes, which output is taken.
  std::string op = {};
  std::vector<int> op_inputs = {};
  Attrs op_attrs = {};
  int op_output = 0;
  // False where the op offers no gradient for this input although it is f32 (row weights of a
  // loss).
  bool has_gradient = true;
  // The gradient by this input is zero by construction in this case.
  bool zero_gradient = false;
};

inline CaseInput absent() {
  return {.domain = Domain::absent, .type = {DType::i32, {0}}, .values = {}};
}
inline CaseInput f32_normal(Shape shape) { return {.type = {DType::f32, std::move(shape)}}; }
inline CaseInput f32_positive(Shape shape, double low = 0.5, double high = 2) {
  return {
      .domain = Domain::positive, .type = {DType::f32, std::move(shape)}, .low = low, .high = high};
}
inline CaseInput f32_away_from_zero(Shape shape, double gap = 0.1) {
  return {.domain = Domain::away_from_zero, .type = {DType::f32, std::move(shape)}, .low = gap};
}
inline CaseInput f32_distinct(Shape shape) {
  return {.domain = Domain::distinct, .type = {DType::f32, std::move(shape)}};
}
inline CaseInput f32_values(Shape shape, std::vector<double> values) {
  return {.domain = Domain::values,
          .type = {DType::f32, std::move(shape)},
          .values = std::move(values)};
}
/// Whole numbers in [low, high].
inline CaseInput i32_between(Shape shape, int64_t low, int64_t high) {
  return {.domain = Domain::integers,
          .type = {DType::i32, std::move(shape)},
          .low = static_cast<double>(low),
          .high = static_cast<double>(high)};
}
inline CaseInput i32_values(Shape shape, std::vector<double> values) {
  return {.domain = Domain::values,
          .type = {DType::i32, std::move(shape)},
          .values = std::move(values)};
}
/// True with the given probability.
inline CaseInput bool_random(Shape shape, double probability = 0.6) {
  return {
      .domain = Domain::integers, .type = {DType::boolean, std::move(shape)}, .high = probability};
}
inline CaseInput bool_values(Shape shape, std::vector<double> values) {
  return {.domain = Domain::values,
          .type = {DType::boolean, std::move(shape)},
          .values = std::move(values)};
}
/// The i64[3] input of random ops: seed, update, first slot.
inline CaseInput rng_input(int64_t seed = 42, int64_t update = 3, int64_t first_slot = 5) {
  return {.domain = Domain::values,
          .type = {DType::i64, {3}},
          .values = {static_cast<double>(seed), static_cast<double>(update),
                     static_cast<double>(first_slot)}};
}
/// Output `output` of `op`, run on the named earlier inputs: `derived("softmax", {0})`. The harness
/// finds its type.
inline CaseInput derived(std::string op, std::vector<int> inputs, Attrs attrs = {},
                         int output = 0) {
  return {.domain = Domain::derived,
          .op = std::move(op),
          .op_inputs = std::move(inputs),
          .op_attrs = std::move(attrs),
          .op_output = output};
}
/// The same input, for which the op has no gradient.
inline CaseInput without_gradient(CaseInput input) {
  input.has_gradient = false;
  return input;
}
inline CaseInput with_zero_gradient(CaseInput input) {
  input.zero_gradient = true;
  return input;
}

struct OpCase {
  std::string op;
  std::string name;  // what is special about it; unique among the op's cases
  std::vector<CaseInput> inputs;
  Attrs attrs = {};
  /// Inputs of `normal`, `positive`, `away_from_zero` and `distinct` are multiplied by each of
  /// these in turn.
  std::vector<double> magnitudes = {1, 4};
  /// The outputs that receive a cotangent; the others are statistics whose gradient the op refuses.
  std::vector<int> differentiated_outputs = {0};
  /// The gradient by every input is zero by construction (everything masked); elsewhere a zero
  /// gradient is a failure.
  bool zero_gradient = false;
  /// Sums and products only: on small whole numbers every kernel must give the exact result.
  bool is_exact_on_integers = false;
  /// The case must fail with this code and a message that contains this text, in the shape rule or
  /// (bad_data) when run.
  ErrorCode error = ErrorCode::ok;
  std::string error_text = {};
};

}  // namespace snug
