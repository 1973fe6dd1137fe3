// SPDX-License-Identifier: Apache-2.0
// Residual networks: those of He et al. 2015 (post-activation) and He et al. 2016
// (pre-activation), for ImageNet and for CIFAR, of any depth. Parameters have torchvision's names;
// the norm that ends a pre-activation network is called "norm".
//   conv1.weight   bn1.{weight,bias,running_mean,running_var}   layerS.B.conv1.weight ...
//   layerS.B.downsample.0.weight, .1.*   fc.{weight,bias}
// Strides are in the 3x3 convolution of a bottleneck, as in torchvision.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "nn/init.h"

namespace snug::models {

struct ResnetConfig {
  std::vector<int64_t> depths = {3, 4, 6, 3};         // blocks of each stage
  std::vector<int64_t> widths = {64, 128, 256, 512};  // channels of each stage's 3x3 convolutions
  std::string layer_type = "bottleneck";              // or "basic"
  bool preactivation = false;
  std::string stem = "imagenet";        // 7x7 with stride 2, then pooling; or "cifar": 3x3
  std::string shortcut = "projection";  // where sizes change; or "padding" with zero channels
  int64_t image_size = 224;
  int64_t num_channels = 3;
  double batch_norm_eps = 1e-5;
  double batch_norm_momentum = 0.1;
  int64_t num_labels = 1000;
  std::vector<std::string> labels;  // by id; empty: LABEL_0, LABEL_1, ... when written
  bool operator==(const ResnetConfig&) const = default;
};

/// True where ResNetForImageClassification of transformers is the same network: the post-activation
/// networks for ImageNet. Their files are written as transformers writes them.
[[nodiscard]] bool is_transformers_resnet(const ResnetConfig& config);
/// The name of a weight in files: transformers' where it has the network, else as in the graph.
[[nodiscard]] std::string resnet_stored_name(const ResnetConfig& config,
                                             const std::string& parameter);

/// "resnet-18", -34, -50, -101, -152 (ImageNet) and -200 (ImageNet, pre-activation);
/// "resnet-imagenet-1000" (the middle stages of resnet-200 stretched in their ratio);
/// "resnet-20", -32, -44, -56, -110, -1202 and any other 6n + 2 (CIFAR, basic blocks);
/// "resnet-164" and "resnet-1001" (CIFAR, 9n + 2, pre-activation bottlenecks).
/// Throws Error{bad_config}.
[[nodiscard]] ResnetConfig resnet_preset(std::string_view name);

/// Reads config.json of transformers ("resnet") and Snug's own ("snug_resnet").
[[nodiscard]] ResnetConfig resnet_config_from_json(std::string_view json, const std::string& file,
                                                   std::vector<std::string>* ignored = nullptr);
/// transformers' config.json where it has the network; else one with "model_type": "snug_resnet".
[[nodiscard]] std::string resnet_config_to_json(const ResnetConfig& config);
/// Throws Error{bad_config} at `where`.
void validate(const ResnetConfig& config, const std::string& where);

/// Builds the classifier into an empty builder.
SequenceModel build_resnet_classifier(GraphBuilder& builder, const ResnetConfig& config,
                                      BatchShape shape, const BuildOptions& options);

/// Convolutions N(0, 2 / fan-out) as in torchvision, the classifier with the variance of PyTorch's
/// default, norms ones and zeros, running statistics 0 and 1.
[[nodiscard]] InitRule resnet_init_rule(const ResnetConfig& config, const std::string& parameter,
                                        const Shape& shape);

}  // namespace snug::models
