// SPDX-License-Identifier: Apache-2.0
// An op of your own: its shapes, its kernel and its gradient. Once a network has it (Network::add),
// NetworkBuilder::op1("name", ...) appends it, and it is planned like any other: kept or run again,
// with its scratch in the arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "snug/network.h"

namespace snug {

/// One run of an op. Operands are dense and row-major; outputs never overlap inputs.
struct OpCall {
  std::span<const TensorType> input_types;
  std::span<const TensorType> output_types;
  const Attrs& attributes;
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  std::byte* scratch = nullptr;  // of scratch_bytes, aligned to 64 bytes

  /// Input or output `index` as elements: float of f32, int32_t of i32, uint8_t of boolean.
  template <class T>
  [[nodiscard]] std::span<const T> input(size_t index) const {
    return {reinterpret_cast<const T*>(inputs[index]),
            static_cast<size_t>(element_count(input_types[index]))};
  }
  template <class T>
  [[nodiscard]] std::span<T> output(size_t index = 0) const {
    return {reinterpret_cast<T*>(outputs[index]),
            static_cast<size_t>(element_count(output_types[index]))};
  }
};

/// What a gradient is built from. `gradients` has one tensor an output, none where nothing flows
/// back.
struct GradientCall {
  NetworkBuilder& builder;
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  std::span<const Tensor> gradients;
  const Attrs& attributes;
};

class CustomOp {
 public:
  using Shapes = std::function<std::vector<TensorType>(std::span<const TensorType> inputs,
                                                       const Attrs& attributes)>;
  /// Built of its operands by ops only: no rows(), inputs, weights, means or marks.
  /// One tensor an input, Tensor() for one that is not differentiable (ids, masks). Where a
  /// gradient ends at an input that is, give zeros: fill(builder, 0, shape).
  using Gradient = std::function<std::vector<Tensor>(const GradientCall&)>;

  // What an op must say.
  std::string name;                 // not that of an op of Snug
  std::vector<std::string> inputs;  // their names
  std::vector<std::string> outputs = {"y"};
  /// Types of the outputs; throw snug::Error{shape_mismatch} for operands that do not go together.
  Shapes infer;
  /// Writes every element of every output; the same operands give the same bytes
  /// (SessionOptions::repeats_own_ops looks). Where it throws, the call fails by the op's name,
  /// with the code of a snug::Error, else `internal` (Session::step says what is left). Runs on one
  /// thread, in which subnormal numbers count as zero (x86): a thread that it starts inherits that.
  std::function<void(const OpCall&)> run;

  // What it may say.
  std::vector<std::pair<std::string, AttrValue>> attributes = {};  // with their defaults
  Gradient gradient = {};                                          // empty: it has none
  /// True where a row of an output (axis 0) depends on other rows of the inputs: the batch of a
  /// network that uses it is then not split unless asked for.
  bool couples_rows = false;
  std::function<int64_t(std::span<const TensorType> inputs, const Attrs&)> scratch_bytes = {};
  /// Floating-point operations of one run, for predictions of time; empty: its operands' bytes
  /// decide.
  std::function<double(std::span<const TensorType> inputs, const Attrs&)> flops = {};
};

}  // namespace snug
