// SPDX-License-Identifier: Apache-2.0
// Layers over the graph builder: each declares its parameters and appends its nodes. A layer `name`
// opens the scope of that name, and its parameters are called after the scope: in scope
// "bert.pooler", linear(b, "dense", x, 8) declares "bert.pooler.dense.weight" and
// "bert.pooler.dense.bias". Names and layouts are those of Hugging Face files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graph/builder.h"

namespace snug::nn {

/// The activations of Hugging Face configurations that Snug knows.
enum class Activation : uint8_t { gelu, gelu_tanh, relu, tanh, sigmoid };
/// "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "tanh", "sigmoid"; nothing for any other name.
[[nodiscard]] std::optional<Activation> find_activation(std::string_view name);

/// "scope.name", or `name` at the root.
[[nodiscard]] std::string scoped(const GraphBuilder& builder, const std::string& name);

/// x (..., in) -> x weight^T + bias (..., out); weight (out, in), bias (out).
[[nodiscard]] ValueId linear(GraphBuilder& builder, const std::string& name, ValueId x,
                             int64_t out_features);

/// Over the last axis; weight ones and bias zeros at the start.
[[nodiscard]] ValueId layer_norm(GraphBuilder& builder, const std::string& name, ValueId x,
                                 double eps);

/// ids i32(...) -> rows of weight (rows, columns): (..., columns).
[[nodiscard]] ValueId embedding(GraphBuilder& builder, const std::string& name, ValueId ids,
                                int64_t rows, int64_t columns);

/// x itself where the rate is 0 or `rng` is kNone (evaluation); takes the builder's next random
/// ordinal otherwise.
[[nodiscard]] ValueId dropout(GraphBuilder& builder, ValueId x, ValueId rng, double rate);

[[nodiscard]] ValueId activate(GraphBuilder& builder, ValueId x, Activation activation);

}  // namespace snug::nn
