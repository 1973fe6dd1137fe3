// SPDX-License-Identifier: Apache-2.0
// A model with the head and loss of its task, as a network like any other. It is fed what the
// model reads (models/model.h), kLabels and kRowWeights; it puts out kLogits.
#pragma once

#include "run_model/model.h"
#include "snug/network.h"

namespace snug::run_model {

/// Holds a copy of what it needs.
[[nodiscard]] Network network_of(const Model& model);

/// The weights before the head that have other shapes in a model with new rows
/// (Model::resized_from).
[[nodiscard]] std::vector<std::string> resized_weights(const Model& before, const Model& now);

}  // namespace snug::run_model
