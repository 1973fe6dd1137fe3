// SPDX-License-Identifier: Apache-2.0
// Images are (N, H, W, C). The scopes are torchvision's module names.
#include "models/vgg/vgg.h"

#include <cmath>

#include "nn/layers.h"
#include "ops/elementwise/elementwise.h"
#include "ops/fed_names.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "snug/error.h"

namespace snug::models {
namespace {

constexpr int64_t kClassifierSide = 7;  // of the feature map that torchvision's classifier reads
constexpr double kLinearDeviation = 0.01;

// (N, S, S, C) as (N, C M M): averaged to M = 7 where S is a multiple of it, channel by channel.
ValueId flatten(GraphBuilder& b, ValueId x) {
  const Shape shape = b.shape(x);
  int64_t side = shape[1];
  if (side > kClassifierSide) {
    const int64_t share = side / kClassifierSide;
    side = kClassifierSide;
    x = reduce_mean(b, reshape(b, x, {shape[0], side, share, side, share, shape[3]}), {2, 4});
  }
  return reshape(b, transpose(b, x, {0, 3, 1, 2}), {shape[0], shape[3] * side * side});
}

}  // namespace

SequenceModel build_vgg_classifier(GraphBuilder& builder, const VggConfig& config, BatchShape shape,
                                   const BuildOptions& options) {
  validate(config, "vgg");
  if (shape.micro_batch < 1)
    throw Error(ErrorCode::bad_config, "vgg", "a batch needs at least one image");
  SequenceModel model;
  model.pixel_values = builder.input(
      kPixelValues,
      {DType::f32, {shape.micro_batch, config.image_size, config.image_size, config.num_channels}});
  if (options.training && config.dropout > 0)
    model.rng = builder.input(kRandomKey, {DType::i64, {3}});
  ValueId x = model.pixel_values;
  int64_t module = 0;
  for (size_t stage = 0; stage < config.depths.size(); ++stage) {
    for (int64_t i = 0; i < config.depths[stage]; ++i) {
      const std::string name = "features." + std::to_string(module);
      x = nn::conv2d(
          builder, name, x,
          {.out_channels = config.widths[stage], .kernel = 3, .padding = 1, .has_bias = true});
      const ScopeGuard scope(builder, name);
      x = relu(builder, x);
      module += 2;
    }
    const ScopeGuard scope(builder, "features." + std::to_string(module++));
    x = max_pool2d(builder, x, {});
  }
  {
    const ScopeGuard scope(builder, "avgpool");
    x = flatten(builder, x);
  }
  for (const char* name : {"classifier.0", "classifier.3"}) {
    x = nn::linear(builder, name, x, config.hidden_size);
    const ScopeGuard scope(builder, name);
    x = nn::dropout(builder, relu(builder, x), model.rng, config.dropout);
  }
  model.logits = nn::linear(builder, "classifier.6", x, config.num_labels);
  return model;
}

InitRule vgg_init_rule(const VggConfig&, const std::string&, const Shape& shape) {
  if (shape.size() == 1) return {};
  if (shape.size() == 2) return {.deviation = kLinearDeviation};
  return {.deviation = std::sqrt(2 / static_cast<double>(shape[0] * shape[2] * shape[3]))};
}

}  // namespace snug::models
