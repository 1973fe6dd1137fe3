// SPDX-License-Identifier: Apache-2.0
// VGG (Simonyan and Zisserman 2014): stages of 3x3 convolutions with relu, each followed by 2x2
// pooling, then three linear layers with dropout. Parameters have torchvision's names and layouts.
//   features.I.{weight,bias}, where I counts convolutions, relus and poolings
//   classifier.{0,3,6}.{weight,bias}
// The feature map goes to the linear layers channel by channel, as in PyTorch. torchvision brings
// every map to 7x7 by averaging; so do images of a multiple of 224 here, and smaller ones keep
// their own size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "nn/init.h"

namespace snug::models {

struct VggConfig {
  std::vector<int64_t> depths = {2, 2, 3, 3, 3};           // convolutions of each stage
  std::vector<int64_t> widths = {64, 128, 256, 512, 512};  // channels of each stage
  int64_t hidden_size = 4096;
  double dropout = 0.5;  // behind the first two linear layers
  int64_t image_size = 224;
  int64_t num_channels = 3;
  int64_t num_labels = 1000;
  std::vector<std::string> labels;  // by id; empty: LABEL_0, LABEL_1, ... when written
  bool operator==(const VggConfig&) const = default;
};

/// "vgg-16" or "vgg-19". Throws Error{bad_config}.
[[nodiscard]] VggConfig vgg_preset(std::string_view name);

[[nodiscard]] VggConfig vgg_config_from_json(std::string_view json, const std::string& file,
                                             std::vector<std::string>* ignored = nullptr);
/// A config.json with "model_type": "vgg".
[[nodiscard]] std::string vgg_config_to_json(const VggConfig& config);
/// Throws Error{bad_config} at `where`.
void validate(const VggConfig& config, const std::string& where);

/// Builds the classifier into an empty builder.
SequenceModel build_vgg_classifier(GraphBuilder& builder, const VggConfig& config, BatchShape shape,
                                   const BuildOptions& options);

/// torchvision's: convolutions N(0, 2 / fan-out), linear weights N(0, 0.01), biases 0.
[[nodiscard]] InitRule vgg_init_rule(const VggConfig& config, const std::string& parameter,
                                     const Shape& shape);

}  // namespace snug::models
