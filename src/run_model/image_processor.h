// SPDX-License-Identifier: Apache-2.0
// preprocessor_config.json of a folder of an image model: how transformers makes an image's bytes
// what the model sees. Weights are of use with the values that they were trained with alone.
#pragma once

#include <string>

#include "data/image_file.h"
#include "data/image_frame.h"
#include "run_model/model.h"

namespace snug::run_model {

inline constexpr const char* kImageProcessorFile = "preprocessor_config.json";

/// Takes the normalization of the folder; without the file, CIFAR-10's. Throws Error{bad_data} for
/// values that are none.
void read_image_processor(const std::string& folder, Model& model);

/// CIFAR's images are normalised and nothing else: throws Error{bad_data} for the first key of the
/// file by which the values of images would become others, and for one by which they would be
/// resized or cut. Where the model is trained on images as they are, that is said instead, in what
/// is returned: what it writes then says so. A caller's own images are what the caller made them,
/// so this is asked where rows are opened.
std::string check_processing(const Model& model, bool trains);

/// What the folder's file does with images of any size before it normalises them; without the file,
/// they are resized to the model's square (bilinear). Throws Error{bad_data} for steps that Snug
/// does not take, and Error{bad_config} where the result is not the model's size.
[[nodiscard]] data::ImageFrame image_frame(const Model& model);

/// With model.frame, for images of any size; else for those of the model's size.
[[nodiscard]] std::string image_processor_json(const Model& model);

}  // namespace snug::run_model
