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
#include <utility>

#include "graph/builder.h"

namespace snug::nn {

/// The activations of Hugging Face configurations that Snug knows.
enum class Activation : uint8_t { gelu, gelu_tanh, relu, tanh, sigmoid };
/// By transformers' names: "gelu" and "gelu_python"; "gelu_new", "gelu_pytorch_tanh", "gelu_fast"
/// and "gelu_accurate", which are one formula; "relu", "tanh", "sigmoid". Nothing for any other
/// name.
[[nodiscard]] std::optional<Activation> find_activation(std::string_view name);

/// "scope.name", or `name` at the root.
[[nodiscard]] std::string scoped(const GraphBuilder& builder, const std::string& name);

/// x (..., in) -> x weight^T + bias (..., out); weight (out, in), bias (out).
[[nodiscard]] ValueId linear(GraphBuilder& builder, const std::string& name, ValueId x,
                             int64_t out_features);

/// The parameters of a linear layer that is applied more than once.
struct LinearMap {
  ValueId weight = kNone;
  ValueId bias = kNone;
};
[[nodiscard]] LinearMap linear_map(GraphBuilder& builder, const std::string& name,
                                   int64_t in_features, int64_t out_features);
[[nodiscard]] ValueId apply(GraphBuilder& builder, const LinearMap& map, ValueId x);

/// x (N, H, W, C) -> (N, OH, OW, out); weight (out, C, KH, KW) as in PyTorch's files, bias (out).
struct Conv2d {
  int64_t out_channels = 0;
  int64_t kernel = 1;  // the same for height and width, as all that follow
  int64_t stride = 1;
  int64_t padding = 0;
  bool has_bias = false;
};
[[nodiscard]] ValueId conv2d(GraphBuilder& builder, const std::string& name, ValueId x,
                             const Conv2d& layer);

/// Over all axes but the last; weight ones and bias zeros at the start. Training normalises by the
/// statistics of the batch and moves the buffers running_mean and running_var towards them, with
/// PyTorch's names and its momentum an update; evaluation normalises by the buffers.
struct BatchNorm {
  double eps = 1e-5;
  double momentum = 0.1;  // of a whole update
  bool training = true;
  int64_t micro_batches = 1;  // of an update; each takes its share of the momentum
};
[[nodiscard]] ValueId batch_norm(GraphBuilder& builder, const std::string& name, ValueId x,
                                 const BatchNorm& layer);

/// Over the last axis; weight ones and bias zeros at the start.
[[nodiscard]] ValueId layer_norm(GraphBuilder& builder, const std::string& name, ValueId x,
                                 double eps);

/// ids i32(...) -> rows of weight (rows, columns): (..., columns).
[[nodiscard]] ValueId embedding(GraphBuilder& builder, const std::string& name, ValueId ids,
                                int64_t rows, int64_t columns);

/// ids and weights (..., T) -> the sum of weights times such rows over the last axis: (...,
/// columns).
[[nodiscard]] ValueId embedding_sum(GraphBuilder& builder, const std::string& name, ValueId ids,
                                    ValueId weights, int64_t rows, int64_t columns);

/// x itself where the rate is 0 or `rng` is kNone (evaluation); takes the builder's next random
/// ordinal otherwise.
[[nodiscard]] ValueId dropout(GraphBuilder& builder, ValueId x, ValueId rng, double rate);

[[nodiscard]] ValueId activate(GraphBuilder& builder, ValueId x, Activation activation);

}  // namespace snug::nn
