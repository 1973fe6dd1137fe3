// SPDX-License-Identifier: Apache-2.0
// preprocessor_config.json of a folder of an image model: how transformers makes an image's bytes
// what the model sees. Weights are of use with the values that they were trained with alone.
#pragma once

#include <string>

#include "data/image_file.h"
#include "setup/model.h"

namespace snug::train {

inline constexpr const char* kImageProcessorFile = "preprocessor_config.json";

/// As the folder says; without the file, CIFAR-10's. Images have the model's size already, so what
/// the file says of resizing and cropping is of no matter here. Throws Error{bad_data} for values
/// that are none.
[[nodiscard]] data::ImageNormalization read_normalization(const std::string& folder);

[[nodiscard]] std::string image_processor_json(const Model& model);

}  // namespace snug::train
