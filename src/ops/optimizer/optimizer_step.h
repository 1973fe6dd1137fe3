// SPDX-License-Identifier: Apache-2.0
// What the ops of optimizers' steps have in common: inputs, outputs, storages, shape rule, and the
// form of a step whose states are stored in 8 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/op_rules.h"

namespace snug {

/// The last inputs of every step, behind the states, in this order.
enum class StepInput : uint8_t { rng, hyper, coefficient, row_of };
inline constexpr size_t kInputsBehindStates = 4;
/// Which of so many inputs it is.
[[nodiscard]] constexpr size_t index_of(StepInput input, size_t inputs) {
  return inputs - kInputsBehindStates + static_cast<size_t>(input);
}

struct StepState {
  const char* name;
  bool is_square = false;  // a mean or a sum of squares
};

/// An op (w, g, states, rng?, hyper, coefficient?, row_of?) that overwrites w and the states. w is
/// f32, or stored as bf16 or bf16x8: then it is rounded stochastically (backend/cpu/weight_rows.h),
/// keyed by rng, i64[3] {seed, update, slot}, and the attribute `stream`. Its attributes are real
/// numbers that must be given, and flags that are false where they are not.
/// Where row_of, i32 (V), is given, w is (V, H) and g row-sparse, (N, H): the gradient of row v of
/// w is row row_of[v] - 1 of g, and zeros where row_of[v] is 0. The bits are those of the whole g.
struct StepOp {
  std::string name;
  std::vector<StepState> states;
  std::vector<std::string> numbers;
  std::vector<std::string> flags = {};
  void (*check)(const InferArgs&) = nullptr;  // of the attributes
  /// Null: the states are of w's shape, there is a form with coded states, and g may be row-sparse.
  InferFn infer = nullptr;
  CostFn cost;
};

/// The ops, and NAME_8bit of each whose states are of w's shape (ops/optimizer/optimizer_codec.h):
///   (w, g, codes u8, scales f32[blocks] for each state, rng, hyper, coefficient?, row_of?) {the
///   attributes of the step, codec} -> w, codes and scales
/// A state is decoded, stepped and coded again block by block.
[[nodiscard]] std::vector<OpDef> make_step_ops(const std::vector<StepOp>& steps);
/// The name of that form.
[[nodiscard]] std::string coded_step(const std::string& name);
inline constexpr const char* kCodecAttr = "codec";      // "adaptive", "bnb"
inline constexpr const char* kSquaresAttr = "squares";  // 1 for each state that is of squares
inline constexpr const char* kStreamAttr = "stream";    // of random numbers: one a weight

/// Requires w and the key that w needs.
void require_weight(const InferArgs& args);
/// Requires a g of w's shape, and that no rows are named.
void require_whole_gradient(const InferArgs& args);
/// The types of w and the states, which are f32 of w's shape.
[[nodiscard]] std::vector<TensorType> infer_step(const InferArgs& args,
                                                 const std::vector<StepState>& states);
/// Requires f32 of this shape at `input`.
void require_f32(const InferArgs& args, size_t input, const Shape& shape, const std::string& name);
/// hyper and the coefficient.
void require_hyper(const InferArgs& args);
/// An attribute in [0, 1).
void require_share(const InferArgs& args, const std::string& name);
void require_not_negative(const InferArgs& args, const std::string& name);

}  // namespace snug
