// SPDX-License-Identifier: Apache-2.0
// preprocessor_config.json of a folder of an image model: how transformers makes an image's bytes
// what the model sees. Weights are of use with the values that they were trained with alone.
#pragma once

#include <string>

#include "data/image_file.h"
#include "setup/model.h"

namespace snug::train {

inline constexpr const char* kImageProcessorFile = "preprocessor_config.json";

/// Takes the normalization of the folder; without the file, CIFAR-10's. Throws Error{bad_data} for
/// values that are none.
void read_image_processor(const std::string& folder, Model& model);

/// Images are normalised and nothing else: throws Error{bad_data} for the first key of the file by
/// which images of the model's size would become others, with its value. A caller's own images are
/// what the caller made them, so this is asked where rows are opened.
void refuse_other_processing(const Model& model);

[[nodiscard]] std::string image_processor_json(const Model& model);

}  // namespace snug::train
