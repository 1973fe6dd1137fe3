// SPDX-License-Identifier: Apache-2.0
// The layers of nn, with initial values.
#include "snug/layers.h"

#include "network/facts.h"
#include "nn/layers.h"

namespace snug {

using network::tensor_in;
using network::value_of;

namespace {

void record(const NetworkBuilder& builder, const std::string& layer, const std::string& weight,
            const InitRule& rule) {
  network::record_rule(builder, nn::scoped(builder.state().graph, layer + "." + weight), rule);
}

}  // namespace

Tensor linear(NetworkBuilder& builder, const std::string& name, const Tensor& x,
              int64_t out_features) {
  builder.check_layer(name, {x.dim(-1), out_features});
  const ValueId y =
      nn::linear(builder.state().graph, name, value_of(builder, x, "x"), out_features);
  record(builder, name, "weight", InitRule::fan_in(x.dim(-1)));
  record(builder, name, "bias", InitRule::zeros());
  return tensor_in(builder, y);
}

Tensor conv2d(NetworkBuilder& builder, const std::string& name, const Tensor& x,
              int64_t out_channels, const ConvOptions& options) {
  builder.check_layer(name, {x.dim(-1), options.kernel, options.kernel, out_channels});
  const ValueId y = nn::conv2d(builder.state().graph, name, value_of(builder, x, "x"),
                               {.out_channels = out_channels,
                                .kernel = options.kernel,
                                .stride = options.stride,
                                .padding = options.padding,
                                .has_bias = options.has_bias});
  record(builder, name, "weight", InitRule::fan_in(x.dim(-1) * options.kernel * options.kernel, 2));
  if (options.has_bias) record(builder, name, "bias", InitRule::zeros());
  return tensor_in(builder, y);
}

Tensor layer_norm(NetworkBuilder& builder, const std::string& name, const Tensor& x, double eps) {
  builder.check_layer(name, {x.dim(-1)});
  const ValueId y = nn::layer_norm(builder.state().graph, name, value_of(builder, x, "x"), eps);
  record(builder, name, "weight", InitRule::ones());
  record(builder, name, "bias", InitRule::zeros());
  return tensor_in(builder, y);
}

Tensor batch_norm(NetworkBuilder& builder, const std::string& name, const Tensor& x, double eps,
                  double momentum) {
  builder.check_layer(name, {x.dim(-1)});
  const compile::BuildRequest& request = builder.state().request;
  const ValueId y = nn::batch_norm(builder.state().graph, name, value_of(builder, x, "x"),
                                   {.eps = eps,
                                    .momentum = momentum,
                                    .training = request.training,
                                    .micro_batches = request.micro_batches});
  record(builder, name, "weight", InitRule::ones());
  record(builder, name, "bias", InitRule::zeros());
  record(builder, name, "running_mean", InitRule::zeros());
  record(builder, name, "running_var", InitRule::ones());
  if (request.training) builder.couples_rows("normalises by the statistics of its batch");
  return tensor_in(builder, y);
}

Tensor embedding(NetworkBuilder& builder, const std::string& name, const Tensor& ids, int64_t count,
                 int64_t width) {
  builder.check_layer(name, {count, width});
  const ValueId y =
      nn::embedding(builder.state().graph, name, value_of(builder, ids, "ids"), count, width);
  record(builder, name, "weight", InitRule::normal(0.1));
  return tensor_in(builder, y);
}

Tensor embedding_sum(NetworkBuilder& builder, const std::string& name, const Tensor& ids,
                     const Tensor& weights, int64_t count, int64_t width) {
  builder.check_layer(name, {count, width});
  const ValueId y = nn::embedding_sum(builder.state().graph, name, value_of(builder, ids, "ids"),
                                      value_of(builder, weights, "weights"), count, width);
  record(builder, name, "weight", InitRule::normal(0.1));
  return tensor_in(builder, y);
}

Tensor cross_entropy(NetworkBuilder& builder, const Tensor& logits, const Tensor& labels,
                     double label_smoothing) {
  return builder.cross_entropy(logits, labels, label_smoothing);
}

Tensor mean_squared_error(NetworkBuilder& builder, const Tensor& prediction, const Tensor& target) {
  const Tensor difference = prediction - target;
  return builder.weighted_mean(difference * difference);
}

}  // namespace snug
