// SPDX-License-Identifier: Apache-2.0
// What the rewrites of a network's forward part are asked for, as plain data of its NetworkDef:
// nothing of it where a network stays as it is.
#pragma once

#include <string>
#include <vector>

#include "snug/lora.h"
#include "snug/types.h"

namespace snug::compile {

/// The type of nodes whose scope, or scope and op ("bert.encoder.layer.3.matmul"), match.
struct PrecisionOverride {
  std::string match;  // * matches any text
  DType dtype = DType::f32;
};

struct MixedPrecision {
  DType dtype = DType::f32;  // bf16 or f16; f32: nothing but what the overrides say
  /// The first that matches decides: f32 denies, 16 bits allow what is not denied.
  std::vector<PrecisionOverride> overrides = {};
  /// False for a part of the network only, such as evaluation, where an override may find nothing.
  bool refuses_unused = true;

  [[nodiscard]] bool is_on() const { return dtype != DType::f32 || !overrides.empty(); }
};

struct WeightStorage {
  std::vector<std::string> freeze = {};  // which weights are frozen, beside the network's own
  DType frozen = DType::f32;             // or bf16, u8
  DType trained = DType::f32;            // or bf16, bf16x8

  [[nodiscard]] bool is_on() const { return frozen != DType::f32 || trained != DType::f32; }
};

struct ForwardChanges {
  LoraOptions lora = {};
  WeightStorage storage = {};
  MixedPrecision training = {};
  MixedPrecision evaluation = {};  // and prediction
};

}  // namespace snug::compile
