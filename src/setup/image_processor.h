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
/// which the values of images would become others, and for one by which they would be resized or
/// cut. Where the model is trained on images as they are, that is said instead, in what is
/// returned: what it writes then says so. A caller's own images are what the caller made them, so
/// this is asked where rows are opened.
std::string check_processing(const Model& model, bool trains);

[[nodiscard]] std::string image_processor_json(const Model& model);

}  // namespace snug::train
