// SPDX-License-Identifier: Apache-2.0
#include "nn/layers.h"

#include <cmath>

#include "ops/batch_norm/batch_norm.h"
#include "ops/conv2d/conv2d.h"
#include "ops/dropout/dropout.h"
#include "ops/elementwise/elementwise.h"
#include "ops/embedding/embedding.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/matmul/matmul.h"
#include "snug/error.h"

namespace snug::nn {

std::optional<Activation> find_activation(std::string_view name) {
  struct Entry {
    std::string_view name;
    Activation activation;
  };
  static constexpr Entry kEntries[] = {
      {"gelu", Activation::gelu},
      {"gelu_new", Activation::gelu_tanh},
      {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"gelu_python", Activation::gelu},
      {"gelu_fast", Activation::gelu_tanh},
      {"gelu_accurate", Activation::gelu_tanh},
      {"relu", Activation::relu},
      {"tanh", Activation::tanh},
      {"sigmoid", Activation::sigmoid},
  };
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return entry.activation;
  }
  return std::nullopt;
}

std::string scoped(const GraphBuilder& builder, const std::string& name) {
  return builder.scope().empty() ? name : builder.scope().str() + "." + name;
}

namespace {

LinearMap declare_map(GraphBuilder& builder, int64_t in_features, int64_t out_features) {
  LinearMap map;
  map.weight =
      builder.parameter(scoped(builder, "weight"), {DType::f32, {out_features, in_features}});
  map.bias = builder.parameter(scoped(builder, "bias"), {DType::f32, {out_features}});
  return map;
}

}  // namespace

ValueId linear(GraphBuilder& builder, const std::string& name, ValueId x, int64_t out_features) {
  const ScopeGuard scope(builder, name);
  if (builder.shape(x).size() < 2) {
    throw Error(ErrorCode::shape_mismatch, builder.scope(),
                "a linear layer needs rows, not " + to_string(builder.type(x)));
  }
  return apply(builder, declare_map(builder, builder.shape(x).back(), out_features), x);
}

LinearMap linear_map(GraphBuilder& builder, const std::string& name, int64_t in_features,
                     int64_t out_features) {
  const ScopeGuard scope(builder, name);
  return declare_map(builder, in_features, out_features);
}

ValueId apply(GraphBuilder& builder, const LinearMap& map, ValueId x) {
  return matmul(builder, x, map.weight, {.transpose_b = true, .bias = map.bias});
}

ValueId conv2d(GraphBuilder& builder, const std::string& name, ValueId x, const Conv2d& layer) {
  const ScopeGuard scope(builder, name);
  if (builder.shape(x).size() != 4) {
    throw Error(ErrorCode::shape_mismatch, builder.scope(),
                "a convolution needs images (N, H, W, C), not " + to_string(builder.type(x)));
  }
  const Shape shape = {layer.out_channels, builder.shape(x).back(), layer.kernel, layer.kernel};
  const ValueId weight = builder.parameter(scoped(builder, "weight"), {DType::f32, shape});
  const ValueId bias = layer.has_bias ? builder.parameter(scoped(builder, "bias"),
                                                          {DType::f32, {layer.out_channels}})
                                      : kNone;
  return snug::conv2d(builder, x, weight,
                      {.stride = {layer.stride, layer.stride},
                       .padding = {layer.padding, layer.padding},
                       .bias = bias});
}

ValueId batch_norm(GraphBuilder& builder, const std::string& name, ValueId x,
                   const BatchNorm& layer) {
  const ScopeGuard scope(builder, name);
  const Shape shape = builder.shape(x);
  if (shape.size() < 2) {
    throw Error(ErrorCode::shape_mismatch, builder.scope(),
                "batch norm needs rows of channels, not " + to_string(builder.type(x)));
  }
  const TensorType channels = {DType::f32, {shape.back()}};
  const ValueId weight = builder.parameter(scoped(builder, "weight"), channels);
  const ValueId bias = builder.parameter(scoped(builder, "bias"), channels);
  const ChannelStatistics running = {builder.buffer(scoped(builder, "running_mean"), channels),
                                     builder.buffer(scoped(builder, "running_var"), channels)};
  if (!layer.training) return batch_norm_inference(builder, x, weight, bias, running, layer.eps);
  const BatchNormOutputs out = snug::batch_norm(builder, x, weight, bias, layer.eps);
  // After all micro-batches the old value has the weight 1 - momentum, as after one whole batch.
  const double share =
      1 - std::pow(1 - layer.momentum, 1.0 / static_cast<double>(layer.micro_batches));
  update_running_statistics(builder, running, {out.mean, out.variance},
                            layer.micro_batches == 1 ? layer.momentum : share,
                            element_count(shape) / shape.back());
  return out.y;
}

ValueId layer_norm(GraphBuilder& builder, const std::string& name, ValueId x, double eps) {
  const ScopeGuard scope(builder, name);
  if (builder.shape(x).empty()) {
    throw Error(ErrorCode::shape_mismatch, builder.scope(),
                "layer norm needs an axis, not a scalar");
  }
  const TensorType width = {DType::f32, {builder.shape(x).back()}};
  const ValueId weight = builder.parameter(scoped(builder, "weight"), width);
  const ValueId bias = builder.parameter(scoped(builder, "bias"), width);
  return snug::layer_norm(builder, x, weight, bias, eps).y;
}

ValueId embedding(GraphBuilder& builder, const std::string& name, ValueId ids, int64_t rows,
                  int64_t columns) {
  const ScopeGuard scope(builder, name);
  const ValueId table = builder.parameter(scoped(builder, "weight"), {DType::f32, {rows, columns}});
  return snug::embedding(builder, table, ids);
}

ValueId embedding_sum(GraphBuilder& builder, const std::string& name, ValueId ids, ValueId weights,
                      int64_t rows, int64_t columns) {
  const ScopeGuard scope(builder, name);
  const ValueId table = builder.parameter(scoped(builder, "weight"), {DType::f32, {rows, columns}});
  return snug::embedding_sum(builder, table, ids, weights);
}

ValueId dropout(GraphBuilder& builder, ValueId x, ValueId rng, double rate) {
  return rate == 0 || rng == kNone ? x : snug::dropout(builder, x, rng, rate);
}

ValueId activate(GraphBuilder& builder, ValueId x, Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return gelu(builder, x, "none");
    case Activation::gelu_tanh:
      return gelu(builder, x, "tanh");
    case Activation::relu:
      return relu(builder, x);
    case Activation::tanh:
      return tanh(builder, x);
    case Activation::sigmoid:
      return sigmoid(builder, x);
  }
  throw Error(ErrorCode::internal, "activate", "an activation without an op");
}

}  // namespace snug::nn
