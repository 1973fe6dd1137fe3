// SPDX-License-Identifier: Apache-2.0
// Weights in fewer bits than f32, as rewrites of a network's forward part. A weight keeps its name.
//
// In bf16 or bf16x8 (24 bits): the weight is stored so, a cast makes it f32 wherever it is read,
//   and read_directly(), last of all rewrites, lets what can read it as it is do so: products
//   and rows (ops/coded/coded.h), which decode it panel by panel, and products in bf16. What else
//   reads it (a convolution, an LSTM) reads the f32 that the cast makes, which the planner keeps
//   or makes again like any value.
// In 8 bits, frozen weights alone: products and rows of them become those of ops/coded/coded.h, and
//   the buffer NAME.scales stands beside a weight.
//
// Stored so is what has two dimensions or more and 4096 elements or more; frozen, also: no part of
// the head, and in 8 bits read by nothing but products and rows. Norms and biases stay as they are.
#pragma once

#include <string>
#include <vector>

#include "compile/network_def.h"

namespace snug::compile {

inline constexpr const char* kScalesSuffix = ".scales";

/// From words: `frozen_dtype` is "float32", "bfloat16" or "int8", `weight_dtype` "float32",
/// "bf16x8" or "bfloat16". Throws Error{bad_config} at that option for another.
[[nodiscard]] WeightStorage make_weight_storage(std::vector<std::string> freeze,
                                                const std::string& frozen_dtype,
                                                const std::string& weight_dtype);

/// The forward part with weights stored as `network.changes` asks for it. Throws Error{bad_config}
/// where there is no such weight.
[[nodiscard]] Graph store_weights(Graph graph, const NetworkDef& network);
/// Whether casts stand before their readers then.
[[nodiscard]] bool has_casts(const WeightStorage& storage);
/// Nothing is cast that can be read as it is stored.
[[nodiscard]] Graph read_directly(Graph graph, const OpRegistry& ops);

/// Whether a resident value is a weight that is stored so.
[[nodiscard]] bool is_coded_weight(ValueKind kind, DType dtype);

}  // namespace snug::compile
