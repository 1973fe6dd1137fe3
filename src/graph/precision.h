// SPDX-License-Identifier: Apache-2.0
// How an op behaves where a network computes in 16 bits (compile/mixed_precision.h).
#pragma once

#include <cstdint>

#include "graph/input_types.h"

namespace snug {

/// The lists of TensorFlow's auto_mixed_precision.
///   allow   products: in 16 bits wherever they stand
///   infer   may store 16 bits, computing in f32: in 16 bits between ops that do
///   deny    in f32, and so is what follows it and might be 16 bits
///   clear   changes no number: as what stands beside it
///   none    in f32 only, and says nothing of its neighbours
enum class Paint : uint8_t { allow, infer, deny, clear, none };

struct Precision {
  Paint paint = Paint::none;
  /// Bit i: input i is stored in 16 bits where the op is; the others keep their type. Null: every
  /// floating input.
  uint32_t (*narrow)(const InputTypes& inputs) = nullptr;
  /// Its attribute `to`, not its inputs, says the type of its output.
  bool has_to = false;
};

}  // namespace snug
