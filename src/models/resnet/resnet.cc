// SPDX-License-Identifier: Apache-2.0
// Images are (N, H, W, C). The scopes are torchvision's module names.
#include "models/resnet/resnet.h"

#include <cmath>

#include "nn/layers.h"
#include "ops/elementwise/elementwise.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "snug/error.h"

namespace snug::models {
namespace {

constexpr int64_t kBottleneckExpansion = 4;

class ResnetGraph {
 public:
  ResnetGraph(GraphBuilder& builder, const ResnetConfig& config, const BuildOptions& options)
      : b_(builder),
        config_(config),
        norm_{.eps = config.batch_norm_eps,
              .momentum = config.batch_norm_momentum,
              .training = options.training,
              .micro_batches = options.micro_batches},
        is_bottleneck_(config.layer_type == "bottleneck") {}

  SequenceModel build(int64_t batch) {
    model_.pixel_values = b_.input(
        kPixelValues,
        {DType::f32, {batch, config_.image_size, config_.image_size, config_.num_channels}});
    ValueId x = stem(model_.pixel_values);
    for (size_t stage = 0; stage < config_.depths.size(); ++stage) {
      for (int64_t i = 0; i < config_.depths[stage]; ++i) {
        const ScopeGuard scope(b_, "layer" + std::to_string(stage + 1) + "." + std::to_string(i));
        const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
        x = config_.preactivation ? preactivation_block(x, config_.widths[stage], stride)
                                  : block(x, config_.widths[stage], stride);
      }
    }
    if (config_.preactivation) x = activated_norm("norm", x);
    const ValueId features = reduce_mean(b_, x, {1, 2});
    model_.logits = nn::linear(b_, "fc", features, config_.num_labels);
    return model_;
  }

 private:
  ValueId conv(const char* name, ValueId x, int64_t channels, int64_t kernel, int64_t stride) {
    return nn::conv2d(
        b_, name, x,
        {.out_channels = channels, .kernel = kernel, .stride = stride, .padding = kernel / 2});
  }
  ValueId norm(const char* name, ValueId x) { return nn::batch_norm(b_, name, x, norm_); }
  ValueId activated_norm(const char* name, ValueId x) {
    const ValueId y = norm(name, x);
    const ScopeGuard scope(b_, name);
    return relu(b_, y);
  }

  // A pre-activation network without pooling behind the stem leaves norm and relu to its blocks.
  ValueId stem(ValueId x) {
    if (config_.stem == "cifar") {
      x = conv("conv1", x, config_.widths[0], 3, 1);
      return config_.preactivation ? x : activated_norm("bn1", x);
    }
    x = activated_norm("bn1", conv("conv1", x, config_.widths[0], 7, 2));
    const ScopeGuard scope(b_, "maxpool");
    return max_pool2d(b_, x, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  }

  [[nodiscard]] int64_t out_channels(int64_t width) const {
    return is_bottleneck_ ? width * kBottleneckExpansion : width;
  }

  // x itself where the block keeps its size.
  ValueId shortcut(ValueId x, int64_t channels, int64_t stride) {
    const int64_t before = b_.shape(x).back();
    if (before == channels && stride == 1) return x;
    const ScopeGuard scope(b_, "downsample");
    if (config_.shortcut == "projection") {
      x = conv("0", x, channels, 1, stride);
      return config_.preactivation ? x : norm("1", x);
    }
    if (stride > 1) x = max_pool2d(b_, x, {.kernel = {1, 1}, .stride = {stride, stride}});
    const int64_t missing = channels - before;
    return missing == 0 ? x : pad(b_, x, 3, missing / 2, missing - missing / 2);
  }

  ValueId block(ValueId x, int64_t width, int64_t stride) {
    const int64_t channels = out_channels(width);
    ValueId y = kNone;
    if (is_bottleneck_) {
      y = activated_norm("bn1", conv("conv1", x, width, 1, 1));
      y = activated_norm("bn2", conv("conv2", y, width, 3, stride));
      y = norm("bn3", conv("conv3", y, channels, 1, 1));
    } else {
      y = activated_norm("bn1", conv("conv1", x, width, 3, stride));
      y = norm("bn2", conv("conv2", y, channels, 3, 1));
    }
    return relu(b_, add(b_, y, shortcut(x, channels, stride)));
  }

  // A projection reads the activated input, an identity the input itself (He et al. 2016).
  ValueId preactivation_block(ValueId x, int64_t width, int64_t stride) {
    const int64_t channels = out_channels(width);
    ValueId y = activated_norm("bn1", x);
    const bool changes = b_.shape(x).back() != channels || stride != 1;
    const ValueId residual =
        shortcut(changes && config_.shortcut == "projection" ? y : x, channels, stride);
    if (is_bottleneck_) {
      y = activated_norm("bn2", conv("conv1", y, width, 1, 1));
      y = activated_norm("bn3", conv("conv2", y, width, 3, stride));
      y = conv("conv3", y, channels, 1, 1);
    } else {
      y = activated_norm("bn2", conv("conv1", y, width, 3, stride));
      y = conv("conv2", y, channels, 3, 1);
    }
    return add(b_, y, residual);
  }

  GraphBuilder& b_;
  const ResnetConfig& config_;
  nn::BatchNorm norm_;
  bool is_bottleneck_;
  SequenceModel model_;
};

}  // namespace

SequenceModel build_resnet_classifier(GraphBuilder& builder, const ResnetConfig& config,
                                      BatchShape shape, const BuildOptions& options) {
  validate(config, "resnet");
  if (shape.micro_batch < 1)
    throw Error(ErrorCode::bad_config, "resnet", "a batch needs at least one image");
  return ResnetGraph(builder, config, options).build(shape.micro_batch);
}

InitRule resnet_init_rule(const ResnetConfig&, const std::string& parameter, const Shape& shape) {
  if (parameter.ends_with(".running_var")) return {.constant = 1};
  if (parameter.ends_with(".bias") || parameter.ends_with(".running_mean")) return {};
  if (shape.size() == 1) return {.constant = 1};  // a norm's weight
  const auto fan_in = static_cast<double>(shape[1]);
  if (shape.size() == 2) return {.deviation = std::sqrt(1 / (3 * fan_in))};
  return {.deviation = std::sqrt(2 / static_cast<double>(shape[0] * shape[2] * shape[3]))};
}

}  // namespace snug::models
