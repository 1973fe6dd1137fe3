// SPDX-License-Identifier: Apache-2.0
// Layers: each declares its weights, called after the scope and its name ("encoder.fc.weight",
// "encoder.fc.bias"), and gives its result. Layouts of weights are PyTorch's.
#pragma once

#include <cstdint>
#include <string>

#include "snug/network.h"
#include "snug/ops.h"

namespace snug {

/// x (rows, ..., in) -> (rows, ..., out); weight (out, in), bias (out).
[[nodiscard]] Tensor linear(NetworkBuilder& builder, const std::string& name, const Tensor& x,
                            int64_t out_features);

/// x (N, H, W, C) -> (N, OH, OW, out); weight (out, C, KH, KW).
struct ConvOptions {
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t padding = 1;
  bool has_bias = true;
};
[[nodiscard]] Tensor conv2d(NetworkBuilder& builder, const std::string& name, const Tensor& x,
                            int64_t out_channels, const ConvOptions& options = {});

/// Over the last axis.
[[nodiscard]] Tensor layer_norm(NetworkBuilder& builder, const std::string& name, const Tensor& x,
                                double eps = 1e-5);

/// Over all axes but the last: by the statistics of the batch in training, by running ones in
/// evaluation. Couples the rows.
[[nodiscard]] Tensor batch_norm(NetworkBuilder& builder, const std::string& name, const Tensor& x,
                                double eps = 1e-5, double momentum = 0.1);

/// ids i32(...) -> rows of weight (count, width): (..., width).
[[nodiscard]] Tensor embedding(NetworkBuilder& builder, const std::string& name, const Tensor& ids,
                               int64_t count, int64_t width);

/// The sum over the last axis of weights (..., T) times the rows that ids i32(..., T) name:
/// (..., width). A mean by a mask is this, divided by the sum of the mask.
[[nodiscard]] Tensor embedding_sum(NetworkBuilder& builder, const std::string& name,
                                   const Tensor& ids, const Tensor& weights, int64_t count,
                                   int64_t width);

/// The mean of softmax cross entropy over all labels but -100; NetworkBuilder::cross_entropy.
[[nodiscard]] Tensor cross_entropy(NetworkBuilder& builder, const Tensor& logits,
                                   const Tensor& labels, double label_smoothing = 0);
/// The mean of (prediction - target)^2.
[[nodiscard]] Tensor mean_squared_error(NetworkBuilder& builder, const Tensor& prediction,
                                        const Tensor& target);

}  // namespace snug
