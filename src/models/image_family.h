// SPDX-License-Identifier: Apache-2.0
// What families of images share: a classifier of square images with torchvision's names of weights.
// Its Config has
//   image_size, num_channels, num_labels, labels
#pragma once

#include <string>

#include "models/family_of.h"

namespace snug::models {

template <class Config>
class ImageFamily : public FamilyOf<Config> {
 public:
  /// Nothing is left over from pretraining: every tensor of a file is the network's own.
  [[nodiscard]] bool is_own(const std::string&) const final { return true; }

 protected:
  using FamilyOf<Config>::FamilyOf;

  void take_keys(const RunConfig& run, Config& config) const override {
    if (run.image_size > 0) config.image_size = run.image_size;
  }
  void take_facts(const ModelFacts& facts, Config& config) const override {
    take_labels(facts, config.num_labels, config.labels);
  }
  [[nodiscard]] ModelTraits traits(const Config& config) const override {
    return {.image_size = config.image_size,
            .image_channels = config.num_channels,
            .num_labels = config.num_labels,
            .labels = config.labels};
  }
};

}  // namespace snug::models
